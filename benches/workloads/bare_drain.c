// Lower bound of the cost of any reader of perf rings: opens tracepoints, maps a ring for each
// CPU, runs a program, and discards the records. Events, samples and rings are those of
// iotrace-perf; the records are not used.
//
//   bare_drain TRACEPOINT=ID[,FILTER]… -- PROGRAM [ARGUMENT…]
//
// Example: bare_drain read=701 'sys_enter=398,id==0' -- ls
#include "workload.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING_BYTES (8u << 20)
#define WATERMARK_BYTES (512u << 10)
#define IDLE_MS 100
#define POINTS_MAX 64
#define CPUS_MAX 1024

static struct pollfd rings[CPUS_MAX];
static struct perf_event_mmap_page *pages[CPUS_MAX];
static int events[CPUS_MAX * POINTS_MAX];
static int event_count;
static uint64_t bytes;

static int open_event(uint32_t type, uint64_t config, int cpu) {
    struct perf_event_attr attr = {
        .type = type,
        .size = sizeof attr,
        .config = config,
        .sample_period = type == PERF_TYPE_TRACEPOINT,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW,
        .disabled = 1,
        .watermark = 1,
        .wakeup_watermark = WATERMARK_BYTES,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .sample_id_all = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    check(fd >= 0, "perf_event_open");
    return fd;
}

// The ring belongs to an event that never fires, and all tracepoints are sent into it.
static void open_cpu(int cpu, char **points, int point_count) {
    long page_bytes = sysconf(_SC_PAGESIZE);
    int owner = open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, cpu);
    pages[cpu] = mmap(NULL, RING_BYTES + (size_t)page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, owner, 0);
    check(pages[cpu] != MAP_FAILED, "mmap of a ring");
    rings[cpu] = (struct pollfd){.fd = owner, .events = POLLIN};
    for (int i = 0; i < point_count; i++) {
        char *id = strchr(points[i], '=');
        if (id == NULL) usage("bare_drain TRACEPOINT=ID[,FILTER]… -- PROGRAM [ARGUMENT…]");
        char *filter;
        int fd = open_event(PERF_TYPE_TRACEPOINT, strtoull(id + 1, &filter, 10), cpu);
        if (*filter == ',') check(ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter + 1) == 0, "filter");
        check(ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, owner) == 0, "redirection");
        events[event_count++] = fd;
    }
}

static void drain(int cpus) {
    for (int cpu = 0; cpu < cpus; cpu++) {
        // Acquire: the records up to the head are whole. Release: the kernel may overwrite them.
        uint64_t head = __atomic_load_n(&pages[cpu]->data_head, __ATOMIC_ACQUIRE);
        bytes += head - pages[cpu]->data_tail;
        __atomic_store_n(&pages[cpu]->data_tail, head, __ATOMIC_RELEASE);
    }
}

int main(int words, char **word) {
    int points = 1;
    while (points < words && strcmp(word[points], "--") != 0) points++;
    char **program = word + points + 1;
    int point_count = points - 1;
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (points + 1 >= words || point_count < 1 || point_count > POINTS_MAX || cpus > CPUS_MAX)
        usage("bare_drain TRACEPOINT=ID[,FILTER]… -- PROGRAM [ARGUMENT…]");
    for (int cpu = 0; cpu < cpus; cpu++) open_cpu(cpu, word + 1, point_count);
    for (int i = 0; i < event_count; i++) check(ioctl(events[i], PERF_EVENT_IOC_ENABLE, 0) == 0, "switching on");

    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
        execvp(program[0], program);
        check(0, program[0]);
    }
    // As iotrace-perf's drain thread; without the right to it goes on as it is.
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
    int status;
    while (waitpid(child, &status, WNOHANG) == 0) {
        check(poll(rings, (nfds_t)cpus, IDLE_MS) >= 0 || errno == EINTR, "poll");
        drain(cpus);
    }
    drain(cpus);
    for (int i = 0; i < event_count; i++) ioctl(events[i], PERF_EVENT_IOC_DISABLE, 0);
    fprintf(stderr, "bare_drain: %llu bytes thrown away\n", (unsigned long long)bytes);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}
