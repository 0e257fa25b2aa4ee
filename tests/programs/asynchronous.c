// Asks for I/O that happens later, and prints each request with its result.
//
//   asynchronous DIR     files are made in DIR
//
// A line for each operation: INTERFACE NAME USER_DATA FD OFFSET BYTES RESULT; '-' for what an
// operation has not. USER_DATA is the number by which the kernel knows it: of io_submit's, the
// address of the iocb.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct ring {
    int fd;
    unsigned *sq_tail, *sq_mask, *sq_array, *sq_flags, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    int polled;
};

static char buffer[65536];
static struct iovec vector[2] = {{buffer, 1000}, {buffer + 4096, 2000}};

static int make_ring(struct ring *ring, unsigned flags) {
    struct io_uring_params p = {.flags = flags};
    ring->fd = syscall(SYS_io_uring_setup, 8, &p);
    if (ring->fd < 0)
        return -1;
    // Both queues are in one piece, which may be no longer than it is.
    size_t sq = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    size_t cq = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    char *rings = mmap(NULL, sq > cq ? sq : cq, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
    ring->sqes = mmap(NULL, 8 * sizeof *ring->sqes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQES);
    if (rings == MAP_FAILED || ring->sqes == MAP_FAILED || !(p.features & IORING_FEAT_SINGLE_MMAP))
        return -1;
    ring->sq_tail = (unsigned *)(rings + p.sq_off.tail);
    ring->sq_mask = (unsigned *)(rings + p.sq_off.ring_mask);
    ring->sq_array = (unsigned *)(rings + p.sq_off.array);
    ring->sq_flags = (unsigned *)(rings + p.sq_off.flags);
    ring->cq_head = (unsigned *)(rings + p.cq_off.head);
    ring->cq_tail = (unsigned *)(rings + p.cq_off.tail);
    ring->cq_mask = (unsigned *)(rings + p.cq_off.ring_mask);
    ring->cqes = (struct io_uring_cqe *)(rings + p.cq_off.cqes);
    ring->polled = (flags & IORING_SETUP_SQPOLL) != 0;
    return 0;
}

static struct io_uring_sqe *queue(struct ring *ring) {
    unsigned tail = *ring->sq_tail, index = tail & *ring->sq_mask;
    struct io_uring_sqe *sqe = &ring->sqes[index];
    memset(sqe, 0, sizeof *sqe);
    ring->sq_array[index] = index;
    return sqe;
}

static void queued(struct ring *ring) {
    __atomic_store_n(ring->sq_tail, *ring->sq_tail + 1, __ATOMIC_RELEASE);
}

// Submits what is queued and waits for so many results; `results` by user_data from `first` on.
static void run(struct ring *ring, unsigned count, uint64_t first, int *results) {
    if (!ring->polled)
        syscall(SYS_io_uring_enter, ring->fd, count, count, IORING_ENTER_GETEVENTS, NULL, 0);
    for (unsigned seen = 0; seen < count;) {
        unsigned head = *ring->cq_head;
        if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE)) {
            unsigned flags = IORING_ENTER_GETEVENTS | (ring->polled ? IORING_ENTER_SQ_WAKEUP : 0);
            syscall(SYS_io_uring_enter, ring->fd, 0, 1, flags, NULL, 0);
            continue;
        }
        struct io_uring_cqe *cqe = &ring->cqes[head & *ring->cq_mask];
        results[cqe->user_data - first] = cqe->res;
        __atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
        seen++;
    }
}

static uint64_t next = 1000;

static void say(const char *name, uint64_t data, int fd, long offset, long bytes, int result) {
    char o[32] = "-", b[32] = "-", f[32] = "-";
    if (fd != -1)
        snprintf(f, sizeof f, "%d", fd);
    if (offset >= 0)
        snprintf(o, sizeof o, "%ld", offset);
    if (bytes >= 0)
        snprintf(b, sizeof b, "%ld", bytes);
    printf("%s %llu %s %s %s %d\n", name, (unsigned long long)data, f, o, b, result);
}

// Submits a single operation.
static int one(struct ring *ring, const char *name, int opcode, int fd, const void *address, unsigned length,
               uint64_t offset, unsigned op_flags, unsigned flags) {
    struct io_uring_sqe *sqe = queue(ring);
    int result = 0;
    uint64_t data = next++;
    sqe->opcode = opcode;
    sqe->fd = fd;
    sqe->addr = (uintptr_t)address;
    sqe->len = length;
    sqe->off = offset;
    sqe->open_flags = op_flags;
    sqe->flags = flags;
    sqe->user_data = data;
    queued(ring);
    run(ring, 1, data, &result);
    char full[64];
    snprintf(full, sizeof full, "io_uring %s", name);
    int has_bytes = strstr(name, "READ") || strstr(name, "WRITE");
    int has_vector = strstr(name, "READV") || strstr(name, "WRITEV");
    int has_fd = opcode != IORING_OP_OPENAT && opcode != IORING_OP_UNLINKAT && opcode != IORING_OP_CLOSE &&
                 opcode != IORING_OP_NOP && opcode != IORING_OP_STATX && !(flags & IOSQE_FIXED_FILE);
    say(full, data, has_fd ? fd : opcode == IORING_OP_OPENAT && result >= 0 ? result : -1,
        has_bytes ? (long)offset : -1, has_bytes ? (has_vector ? 3000 : (long)length) : -1, result);
    return result;
}

static void with_ring(unsigned setup, const char *path) {
    struct ring ring;
    if (make_ring(&ring, setup) != 0) {
        fprintf(stderr, "no ring with flags %u: %s\n", setup, strerror(errno));
        return;
    }
    int fd = one(&ring, "OPENAT", IORING_OP_OPENAT, AT_FDCWD, path, 0600, 0, O_RDWR | O_CREAT, 0);
    int plain = open(path, O_RDWR);
    one(&ring, "WRITE", IORING_OP_WRITE, plain, buffer, 8192, 0, 0, 0);
    one(&ring, "WRITEV", IORING_OP_WRITEV, plain, vector, 2, 8192, 0, 0);
    one(&ring, "FSYNC", IORING_OP_FSYNC, plain, NULL, 0, 0, 0, 0);
    one(&ring, "READ", IORING_OP_READ, plain, buffer, 4096, 4096, 0, 0);
    one(&ring, "READV", IORING_OP_READV, plain, vector, 2, 100, 0, 0);
    one(&ring, "READ", IORING_OP_READ, plain, buffer, 4096, 9000, 0, 0);
    one(&ring, "READ", IORING_OP_READ, plain, buffer, 4096, 1 << 20, 0, 0);
    // Done by a worker.
    one(&ring, "READ", IORING_OP_READ, plain, buffer, 512, 512, 0, IOSQE_ASYNC);
    one(&ring, "READ", IORING_OP_READ, 99, buffer, 512, 0, 0, 0);
    one(&ring, "FALLOCATE", IORING_OP_FALLOCATE, plain, (void *)20000, 0, 0, 0, 0);
    one(&ring, "NOP", IORING_OP_NOP, -1, NULL, 0, 0, 0, 0);
    // The kernel refuses this one when it takes it.
    one(&ring, "NOP", IORING_OP_NOP, -1, NULL, 0, 0, 0, 0x80);
    // Two that are linked: the second begins when the first is done.
    int results[2];
    uint64_t first = next;
    for (int i = 0; i < 2; i++) {
        struct io_uring_sqe *sqe = queue(&ring);
        sqe->opcode = i == 0 ? IORING_OP_WRITE : IORING_OP_READ;
        sqe->fd = plain;
        sqe->addr = (uintptr_t)buffer;
        sqe->len = 777;
        sqe->off = 300;
        sqe->flags = i == 0 ? IOSQE_IO_LINK : 0;
        sqe->user_data = next++;
        queued(&ring);
    }
    run(&ring, 2, first, results);
    say("io_uring WRITE", first, plain, 300, 777, results[0]);
    say("io_uring READ", first + 1, plain, 300, 777, results[1]);
    // A registered file has no descriptor.
    if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, &plain, 1) == 0)
        one(&ring, "READ", IORING_OP_READ, 0, buffer, 4096, 0, 0, IOSQE_FIXED_FILE);
    if (fd >= 0)
        one(&ring, "CLOSE", IORING_OP_CLOSE, fd, NULL, 0, 0, 0, 0);
    one(&ring, "UNLINKAT", IORING_OP_UNLINKAT, AT_FDCWD, path, 0, 0, 0, 0);
    close(plain);
    close(ring.fd);
}

static void with_aio(const char *path) {
    aio_context_t context = 0;
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (syscall(SYS_io_setup, 8, &context) != 0) {
        fprintf(stderr, "no io_setup: %s\n", strerror(errno));
        return;
    }
    struct iocb iocbs[6] = {
        {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = fd, .aio_buf = (uintptr_t)buffer, .aio_nbytes = 5000},
        {.aio_lio_opcode = IOCB_CMD_PWRITEV, .aio_fildes = fd, .aio_buf = (uintptr_t)vector, .aio_nbytes = 2, .aio_offset = 5000},
        {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = fd, .aio_buf = (uintptr_t)buffer, .aio_nbytes = 4096, .aio_offset = 7000},
        {.aio_lio_opcode = IOCB_CMD_PREADV, .aio_fildes = fd, .aio_buf = (uintptr_t)vector, .aio_nbytes = 2, .aio_offset = 10},
        {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = fd, .aio_buf = (uintptr_t)buffer, .aio_nbytes = 10, .aio_offset = 1 << 20},
        {.aio_lio_opcode = IOCB_CMD_FDSYNC, .aio_fildes = fd},
    };
    const char *names[6] = {"PWRITE", "PWRITEV", "PREAD", "PREADV", "PREAD", "FDSYNC"};
    long bytes[6] = {5000, 3000, 4096, 3000, 10, -1};
    long results[6];
    // Two at once, the others one by one.
    for (int i = 0; i < 6; i += i == 0 ? 2 : 1) {
        int count = i == 0 ? 2 : 1;
        struct iocb *list[2] = {&iocbs[i], &iocbs[i + 1 < 6 ? i + 1 : i]};
        if (syscall(SYS_io_submit, context, count, list) != count) {
            fprintf(stderr, "io_submit %s: %s\n", names[i], strerror(errno));
            continue;
        }
        struct io_event events[2];
        int seen = 0;
        while (seen < count) {
            int got = syscall(SYS_io_getevents, context, 1, count - seen, events, NULL);
            for (int e = 0; e < got; e++)
                results[(struct iocb *)(uintptr_t)events[e].obj - iocbs] = events[e].res;
            seen += got;
        }
        for (int k = i; k < i + count; k++) {
            char full[64];
            snprintf(full, sizeof full, "aio %s", names[k]);
            say(full, (uintptr_t)&iocbs[k], fd, bytes[k] < 0 ? -1 : (long)iocbs[k].aio_offset, bytes[k], results[k]);
        }
    }
    syscall(SYS_io_destroy, context);
    close(fd);
}

int main(int argc, char **argv) {
    if (argc != 2 || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: asynchronous DIR\n");
        return 2;
    }
    with_ring(0, "ring");
    with_ring(IORING_SETUP_SQPOLL, "polled");
    with_aio("aio");
    return 0;
}
