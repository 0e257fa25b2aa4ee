// Times single system calls by the clock of their own thread, and prints the distribution of the
// times.
//
//   durations KIND OPERATIONS DIRECTORY      e.g. durations open 20000 /tmp
//
// KIND: open, missing (an open that fails), read, write (one byte each), fsync, aio (io_submit to
// io_getevents of libaio, direct), uring (io_uring_enter of one read), exec (vfork of a child that
// starts /bin/true: it returns when the program has been replaced). Prints "ns: P50 P99", without
// the cost of the clock.
#include "workload.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 4096

static char present[PATH_MAX], absent[PATH_MAX];
static int file;
static char *block;

static int open_one(void) {
    int fd = open(present, O_RDONLY);
    check(fd >= 0, present);
    return fd;
}

static int open_missing(void) { return open(absent, O_RDONLY); }

static int read_one(void) { return (int)pread(file, block, 1, 0); }

static int write_one(void) { return (int)pwrite(file, block, 1, 0); }

static int sync_file(void) { return fsync(file); }

// libaio, loaded at run time: it need not be there for the other kinds.
static int (*setup)(unsigned, aio_context_t *);
static int (*submit)(aio_context_t, long, struct iocb **);
static int (*getevents)(aio_context_t, long, long, struct io_event *, struct timespec *);
static aio_context_t context;

static void start_aio(void) {
    void *library = dlopen("libaio.so.1", RTLD_NOW);
    if (!library) library = dlopen("libaio.so.1t64", RTLD_NOW);
    check(library != NULL, "libaio");
    *(void **)&setup = dlsym(library, "io_setup");
    *(void **)&submit = dlsym(library, "io_submit");
    *(void **)&getevents = dlsym(library, "io_getevents");
    check(setup(8, &context) == 0, "io_setup");
}

static int read_by_aio(void) {
    struct iocb one = {.aio_lio_opcode = IOCB_CMD_PREAD,
                       .aio_fildes = (unsigned)file,
                       .aio_buf = (uintptr_t)block,
                       .aio_nbytes = BLOCK};
    struct iocb *list[1] = {&one};
    struct io_event event;
    check(submit(context, 1, list) == 1, "io_submit");
    check(getevents(context, 1, 1, &event, NULL) == 1, "io_getevents");
    return (int)event.res;
}

static int ring;
static unsigned *tail, *mask, *array, *head, *results_tail;
static struct io_uring_sqe *entries;

static void start_uring(void) {
    struct io_uring_params params = {0};
    ring = (int)syscall(SYS_io_uring_setup, 8, &params);
    check(ring >= 0, "io_uring_setup");
    check(params.features & IORING_FEAT_SINGLE_MMAP, "IORING_FEAT_SINGLE_MMAP");
    size_t results = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    size_t indices = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t bytes = results > indices ? results : indices;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    check(at != MAP_FAILED, "mmap");
    entries = mmap(NULL, params.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
                   IORING_OFF_SQES);
    check(entries != MAP_FAILED, "mmap");
    tail = (unsigned *)(at + params.sq_off.tail);
    mask = (unsigned *)(at + params.sq_off.ring_mask);
    array = (unsigned *)(at + params.sq_off.array);
    head = (unsigned *)(at + params.cq_off.head);
    results_tail = (unsigned *)(at + params.cq_off.tail);
}

static int read_by_uring(void) {
    unsigned next = *tail, index = next & *mask;
    entries[index] = (struct io_uring_sqe){
        .opcode = IORING_OP_READ, .fd = file, .addr = (uintptr_t)block, .len = 1};
    array[index] = index;
    __atomic_store_n(tail, next + 1, __ATOMIC_RELEASE);
    int submitted = (int)syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    check(submitted == 1, "io_uring_enter");
    check(__atomic_load_n(results_tail, __ATOMIC_ACQUIRE) != *head, "a result");
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return 1;
}

static int exec_child(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    check(child > 0, "vfork");
    return 0;
}

static const struct kind {
    const char *name;
    int (*call)(void);
    void (*start)(void);
    int expected;
    int flags;
} kinds[] = {
    {"open", open_one, NULL, 0, 0},
    {"missing", open_missing, NULL, -1, 0},
    {"read", read_one, NULL, 1, 0},
    {"write", write_one, NULL, 1, 0},
    {"fsync", sync_file, NULL, 0, 0},
    {"aio", read_by_aio, start_aio, BLOCK, O_DIRECT},
    {"uring", read_by_uring, start_uring, 1, 0},
    {"exec", exec_child, NULL, 0, 0},
};

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t quantile(uint64_t *sorted, size_t count, double share) { return sorted[(size_t)(share * (double)(count - 1))]; }

int main(int words, char **word) {
    if (words != 4) usage("durations KIND OPERATIONS DIRECTORY");
    const struct kind *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, word[1]) == 0) kind = &kinds[i];
    if (!kind) usage("KIND is one of open, missing, read, write, fsync, aio, uring, exec");
    size_t count = strtoull(word[2], NULL, 10);
    check(count > 0, "OPERATIONS");
    snprintf(present, sizeof present, "%s/durations-%d", word[3], (int)getpid());
    snprintf(absent, sizeof absent, "%s/durations-%d-absent", word[3], (int)getpid());
    block = aligned_alloc(BLOCK, BLOCK);
    memset(block, 7, BLOCK);
    file = open(present, O_RDWR | O_CREAT | O_EXCL | kind->flags, 0600);
    check(file >= 0, present);
    check(pwrite(file, block, BLOCK, 0) == BLOCK, "pwrite");
    if (kind->start) kind->start();

    uint64_t *times = calloc(count, sizeof *times), *clock = calloc(count, sizeof *clock);
    for (size_t i = 0; i < count; i++) {
        uint64_t since = now_ns();
        clock[i] = now_ns() - since;
    }
    for (size_t i = 0; i < count; i++) {
        // Data for fsync, written outside of the measured time.
        if (kind->call == sync_file) check(write_one() == 1, "pwrite");
        uint64_t since = now_ns();
        int result = kind->call();
        times[i] = now_ns() - since;
        if (kind->call == exec_child) {
            int status;
            check(wait(&status) > 0 && status == 0, "/bin/true");
        }
        if (kind->call == open_one) close(result);
        else check(result == kind->expected, kind->name);
    }
    unlink(present);
    qsort(clock, count, sizeof *clock, by_value);
    qsort(times, count, sizeof *times, by_value);
    uint64_t own = quantile(clock, count, 0.5), p50 = quantile(times, count, 0.5), p99 = quantile(times, count, 0.99);
    printf("ns: %llu %llu\n", (unsigned long long)(p50 - own), (unsigned long long)(p99 - own));
    return 0;
}
