// delayed_disk DIR BYTES MICROSECONDS DEPTH: mounts a file system at DIR in which `disk` is a file
// of zeroes. Each read and write of it takes this time, DEPTH of them at once, in the order of
// their arrival: what DEPTH threads do that each take a request, sleep, and answer, before every
// program of an ordinary priority. Data that is written is dropped. Prints "ready" when it answers.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { BYTES_MAX = 1 << 20, QUEUE = 1 << 12, BACKGROUND = 1 << 10 };

struct waiting { uint64_t unique; uint32_t opcode, bytes; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_more = PTHREAD_COND_INITIALIZER;
static struct waiting queue[QUEUE];
static unsigned long first, end;
static int device;
static uint64_t file_bytes;
static long delay_ns;
static char zeroes[BYTES_MAX];

static void answer(uint64_t unique, int error, const void *data, size_t bytes) {
    struct fuse_out_header head = {.len = sizeof head + bytes, .error = error, .unique = unique};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)data, bytes}};
    if (writev(device, parts, bytes ? 2 : 1) < 0 && errno != ENOENT) perror("answer");
}

static void *serve_delayed(void *unused) {
    for (;;) {
        pthread_mutex_lock(&lock);
        while (first == end) pthread_cond_wait(&has_more, &lock);
        struct waiting its = queue[first++ % QUEUE];
        pthread_mutex_unlock(&lock);
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += delay_ns;
        until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL)) {}
        struct fuse_write_out written = {.size = its.bytes};
        if (its.opcode == FUSE_WRITE) answer(its.unique, 0, &written, sizeof written);
        else answer(its.unique, 0, zeroes, its.bytes);
    }
    return unused;
}

static void delay(const struct fuse_in_header *in, uint32_t bytes) {
    pthread_mutex_lock(&lock);
    if (end - first == QUEUE) abort();
    queue[end++ % QUEUE] = (struct waiting){in->unique, in->opcode, bytes};
    pthread_cond_signal(&has_more);
    pthread_mutex_unlock(&lock);
}

static struct fuse_attr attributes(uint64_t node) {
    if (node == FUSE_ROOT_ID) return (struct fuse_attr){.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2};
    return (struct fuse_attr){.ino = 2, .mode = S_IFREG | 0600, .nlink = 1, .size = file_bytes,
                              .blocks = file_bytes / 512, .blksize = 4096};
}

static void serve(const struct fuse_in_header *in, const void *body) {
    switch (in->opcode) {
    case FUSE_INIT: {
        const struct fuse_init_in *its = body;
        struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .max_write = BYTES_MAX / 2,
            .max_readahead = its->max_readahead, .max_background = BACKGROUND,
            .congestion_threshold = BACKGROUND, .max_pages = BYTES_MAX / 2 / 4096,
            .flags = its->flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES)};
        out.minor = its->minor < FUSE_KERNEL_MINOR_VERSION ? its->minor : FUSE_KERNEL_MINOR_VERSION;
        answer(in->unique, 0, &out, sizeof out);
        puts("ready");
        fflush(stdout);
        return;
    }
    case FUSE_LOOKUP: {
        if (strcmp(body, "disk")) return answer(in->unique, -ENOENT, NULL, 0);
        struct fuse_entry_out out = {.nodeid = 2, .attr_valid = 3600, .attr = attributes(2)};
        return answer(in->unique, 0, &out, sizeof out);
    }
    case FUSE_GETATTR: case FUSE_SETATTR: {
        struct fuse_attr_out out = {.attr_valid = 3600, .attr = attributes(in->nodeid)};
        return answer(in->unique, 0, &out, sizeof out);
    }
    case FUSE_OPEN: {
        struct fuse_open_out out = {.fh = 0};
        return answer(in->unique, 0, &out, sizeof out);
    }
    case FUSE_READ: return delay(in, ((const struct fuse_read_in *)body)->size);
    case FUSE_WRITE: return delay(in, ((const struct fuse_write_in *)body)->size);
    case FUSE_STATFS: {
        struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 255}};
        return answer(in->unique, 0, &out, sizeof out);
    }
    case FUSE_FSYNC: case FUSE_FLUSH: case FUSE_RELEASE: return answer(in->unique, 0, NULL, 0);
    case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT: return;
    default: return answer(in->unique, -ENOSYS, NULL, 0);
    }
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    static char in[BYTES_MAX], options[128];
    file_bytes = strtoull(argv[2], NULL, 10);
    delay_ns = strtol(argv[3], NULL, 10) * 1000;
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40755,user_id=0,group_id=0", device);
    if (device < 0 || mount("delayed_disk", argv[1], "fuse", MS_NOSUID | MS_NODEV, options)) {
        perror("mount");
        return 1;
    }
    // A thread of this class sleeps to the nanosecond.
    struct sched_param priority = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &priority)) perror("sched_setscheduler");
    for (long left = strtol(argv[4], NULL, 10); left > 0; left--) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve_delayed, NULL)) return 1;
    }
    for (;;) {
        ssize_t got = read(device, in, sizeof in);
        if (got < 0 && errno == ENODEV) return 0;
        if (got >= (ssize_t)sizeof(struct fuse_in_header)) serve((void *)in, (struct fuse_in_header *)in + 1);
    }
}
