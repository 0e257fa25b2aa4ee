// Reads of one byte, flat out, by one thread on each of the first CPUs.
//
//   reads COUNT CPUS
#include "workload.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static uint64_t count;
static pthread_barrier_t start;

static void *read_all(void *cpu) {
    char byte;
    pin((int)(intptr_t)cpu);
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    check(fd >= 0, "/dev/zero");
    pthread_barrier_wait(&start);
    for (uint64_t i = 0; i < count; i++) check(read(fd, &byte, 1) == 1, "read");
    return NULL;
}

int main(int words, char **word) {
    if (words != 3) usage("reads COUNT CPUS");
    count = strtoull(word[1], NULL, 10);
    int cpus = atoi(word[2]);
    if (count == 0 || cpus < 1 || cpus > CPU_SETSIZE) usage("reads COUNT CPUS, both at least 1");
    pthread_t *threads = calloc((size_t)cpus, sizeof *threads);
    check(threads != NULL, "calloc");
    pthread_barrier_init(&start, NULL, (unsigned)cpus + 1);
    for (int cpu = 0; cpu < cpus; cpu++)
        check(pthread_create(&threads[cpu], NULL, read_all, (void *)(intptr_t)cpu) == 0, "pthread_create");
    pthread_barrier_wait(&start);
    uint64_t since = now_ns();
    for (int cpu = 0; cpu < cpus; cpu++) pthread_join(threads[cpu], NULL);
    // Per thread: with enough CPUs more threads take as long as one.
    report(since, count);
    return 0;
}
