// Many processes or threads, each of which writes.
//
//   many_writers forks COUNT FILE      COUNT children, 64 at a time; each writes 7 bytes
//   many_writers threads COUNT FILE    COUNT threads at the same time; each writes 11 bytes
//   many_writers pids COUNT FILE       COUNT children one after the other with the same number;
//                              each makes a FILE.N of its own and writes N % 100 + 1 bytes; 77: the
//                              kernel does not let us choose the number
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int fd;
static pthread_barrier_t all_there;
static char bytes[128];

static int forks(int count)
{
    int bad = 0, status, running = 0;
    for (int number = 0; number < count || running > 0;) {
        if (number < count && running < 64) {
            pid_t child = fork();
            if (child == 0)
                _exit(write(fd, bytes, 7) != 7);
            if (child < 0)
                return 3;
            number++;
            running++;
        } else {
            if (wait(&status) < 0)
                return 4;
            bad += status != 0;
            running--;
        }
    }
    return bad != 0;
}

static void *thread(void *number)
{
    pthread_barrier_wait(&all_there);
    return (void *)(long)(pwrite(fd, bytes, 11, 11 * (long)number) != 11);
}

static int threads(int count)
{
    pthread_t *all = calloc(count, sizeof *all);
    pthread_attr_t small;
    long bad = 0;
    void *result;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 16);
    pthread_barrier_init(&all_there, NULL, count);
    for (long number = 0; number < count; number++)
        if (pthread_create(&all[number], &small, thread, (void *)number) != 0)
            return 3;
    for (int number = 0; number < count; number++) {
        pthread_join(all[number], &result);
        bad += (long)result;
    }
    return bad != 0;
}

static int one_file(const char *name, int number)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", name, number);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), size = number % 100 + 1;
    return file < 0 || write(file, bytes, size) != size;
}

static int pids(int count, const char *name)
{
    int status, last = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    char before[16];
    pid_t wanted = 0;
    for (int number = 0; number < count; number++) {
        if (wanted > 0) {
            int length = snprintf(before, sizeof before, "%d", wanted - 1);
            if (last < 0 || pwrite(last, before, length, 0) != length)
                return 77;
        }
        pid_t child = fork();
        if (child == 0)
            _exit(one_file(name, number));
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 4;
        if (wanted == 0)
            wanted = child;
        // Another process may have taken it meanwhile: then one more time.
        if (child != wanted)
            count++;
    }
    printf("%d\n", wanted);
    return 0;
}

int main(int words, char **word)
{
    if (words != 4 || (fd = open(word[3], O_WRONLY | O_CREAT | O_TRUNC, 0600)) < 0)
        return 2;
    int count = atoi(word[2]);
    if (strcmp(word[1], "forks") == 0)
        return forks(count);
    return strcmp(word[1], "threads") == 0 ? threads(count) : pids(count, word[3]);
}
