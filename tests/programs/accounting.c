/* Makes each call that /proc/PID/io counts, and those that it does not, with each kind of failure.
 * Prints for each the call, its registers, its result, and what the kernel counted:
 * NAME A0..A5 RESULT RCHAR WCHAR SYSCR SYSCW. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int books;
static char first[512], second[512];

static long long field(const char *text, const char *name) { return atoll(strstr(text, name) + strlen(name)); }

static void make(const char *name, long number, long a, long b, long c, long d, long e, long f) {
    long read_bytes = pread(books, first, sizeof first - 1, 0);
    long result = syscall(number, a, b, c, d, e, f);
    if (result < 0)
        result = -errno;
    pread(books, second, sizeof second - 1, 0);
    printf("%s %ld %ld %ld %ld %ld %ld %ld", name, a, b, c, d, e, f, result);
    printf(" %lld %lld %lld %lld\n", field(second, "rchar:") - field(first, "rchar:") - read_bytes,
           field(second, "wchar:") - field(first, "wchar:"), field(second, "syscr:") - field(first, "syscr:") - 1,
           field(second, "syscw:") - field(first, "syscw:"));
    fflush(stdout);
}

#define MAKE(name, a, b, c, d, e, f) \
    make(#name, SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static char buffer[4096] __attribute__((aligned(4096)));
static struct iovec vector[2] = {{buffer, 8}, {buffer + 8, 8}};
static int file, only_read, only_write, other, directory, null, epoll, event, direct, full, pipes[2], sockets[2];

static void plain(void) {
    MAKE(read, file, buffer, 8, 0, 0, 0);
    MAKE(read, file, buffer, 0, 0, 0, 0);
    MAKE(read, -1, buffer, 8, 0, 0, 0);
    MAKE(read, only_write, buffer, 8, 0, 0, 0);
    MAKE(read, directory, buffer, 8, 0, 0, 0);
    MAKE(read, file, buffer, -1, 0, 0, 0);
    MAKE(read, file, 8, 8, 0, 0, 0);
    MAKE(read, file, -4096, 8, 0, 0, 0);
    MAKE(read, pipes[0], buffer, 8, 0, 0, 0);
    MAKE(read, epoll, buffer, 8, 0, 0, 0);
    MAKE(read, event, buffer, 4, 0, 0, 0);
    MAKE(read, direct, buffer + 1, 3, 0, 0, 0);
    MAKE(read, sockets[0], buffer, 8, 0, 0, 0);
    MAKE(write, file, buffer, 8, 0, 0, 0);
    MAKE(write, null, buffer, 8, 0, 0, 0);
    MAKE(write, null, buffer, 0, 0, 0, 0);
    MAKE(write, -1, buffer, 8, 0, 0, 0);
    MAKE(write, only_read, buffer, 8, 0, 0, 0);
    MAKE(write, file, 8, 8, 0, 0, 0);
    MAKE(write, file, -4096, 8, 0, 0, 0);
    MAKE(write, null, buffer, -1, 0, 0, 0);
    MAKE(write, pipes[1], buffer, 8, 0, 0, 0);
    MAKE(write, full, buffer, 8, 0, 0, 0);
    MAKE(write, event, buffer, 4, 0, 0, 0);
    MAKE(pread64, file, buffer, 8, 0, 0, 0);
    MAKE(pread64, file, buffer, 8, -1, 0, 0);
    MAKE(pread64, file, buffer, 8, 0x7fffffffffffffff, 0, 0);
    MAKE(pread64, pipes[0], buffer, 8, 0, 0, 0);
    MAKE(pread64, -1, buffer, 8, 0, 0, 0);
    MAKE(pwrite64, file, buffer, 8, 0, 0, 0);
    MAKE(pwrite64, file, buffer, 8, -1, 0, 0);
    MAKE(pwrite64, pipes[1], buffer, 8, 0, 0, 0);
    MAKE(pwrite64, only_read, buffer, 8, 0, 0, 0);
}

static void vectored(void) {
    MAKE(readv, file, vector, 2, 0, 0, 0);
    MAKE(readv, -1, vector, 2, 0, 0, 0);
    MAKE(readv, only_write, vector, 2, 0, 0, 0);
    MAKE(readv, file, vector, -1, 0, 0, 0);
    MAKE(readv, file, 8, 1, 0, 0, 0);
    MAKE(readv, epoll, vector, 1, 0, 0, 0);
    MAKE(writev, file, vector, 2, 0, 0, 0);
    MAKE(writev, -1, vector, 2, 0, 0, 0);
    MAKE(writev, only_read, vector, 2, 0, 0, 0);
    MAKE(writev, file, vector, -1, 0, 0, 0);
    MAKE(preadv, file, vector, 2, 0, 0, 0);
    MAKE(preadv, file, vector, 2, -1, 0, 0);
    MAKE(preadv, file, vector, 2, -2, 0, 0);
    MAKE(preadv, pipes[0], vector, 1, 0, 0, 0);
    MAKE(preadv, -1, vector, 1, 0, 0, 0);
    MAKE(preadv2, file, vector, 2, -1, 0, 0);
    MAKE(preadv2, file, vector, 2, -2, 0, 0);
    MAKE(preadv2, -1, vector, 2, -1, 0, 0);
    MAKE(preadv2, file, vector, 2, 0, 0, 1 << 30);
    MAKE(pwritev, file, vector, 2, 0, 0, 0);
    MAKE(pwritev, file, vector, 2, -1, 0, 0);
    MAKE(pwritev, pipes[1], vector, 1, 0, 0, 0);
    MAKE(pwritev, -1, vector, 1, 0, 0, 0);
    MAKE(pwritev2, file, vector, 2, -1, 0, 0);
    MAKE(pwritev2, file, vector, 2, -2, 0, 0);
    MAKE(pwritev2, file, vector, 2, 0, 0, 1 << 30);
}

static void between_files(void) {
    long long at = 0, minus = -5, end = 1 << 20, to = 1 << 16;
    MAKE(sendfile, other, only_read, &at, 8, 0, 0);
    MAKE(sendfile, other, only_read, &end, 8, 0, 0);
    MAKE(sendfile, other, only_read, &minus, 8, 0, 0);
    MAKE(sendfile, only_read, file, &at, 8, 0, 0);
    MAKE(sendfile, -1, file, &at, 8, 0, 0);
    MAKE(sendfile, other, -1, &at, 8, 0, 0);
    MAKE(sendfile, other, pipes[0], &at, 8, 0, 0);
    MAKE(sendfile, other, file, 8, 8, 0, 0);
    MAKE(sendfile, pipes[1], only_read, &at, 8, 0, 0);
    MAKE(sendfile, sockets[0], only_read, &at, 8, 0, 0);
    MAKE(sendfile, full, only_read, &at, 8, 0, 0);
    at = 0;
    MAKE(copy_file_range, only_read, &at, file, &to, 8, 0);
    MAKE(copy_file_range, only_read, &at, file, &to, 0, 0);
    MAKE(copy_file_range, only_read, &end, file, &to, 8, 0);
    MAKE(copy_file_range, only_read, &at, other, &to, 8, 0);
    MAKE(copy_file_range, only_read, &at, directory, &to, 8, 0);
    MAKE(copy_file_range, directory, &at, file, &to, 8, 0);
    MAKE(copy_file_range, only_read, &at, only_read, &to, 8, 0);
    MAKE(copy_file_range, -1, &at, file, &to, 8, 0);
    MAKE(copy_file_range, pipes[0], 0, file, &to, 8, 0);
    MAKE(copy_file_range, only_read, &at, file, &to, 8, 1);
    MAKE(copy_file_range, only_read, 8, file, &to, 8, 0);
    at = to = 0;
    MAKE(copy_file_range, file, &at, file, &to, 8, 0);
    to = -5;
    MAKE(copy_file_range, only_read, &at, file, &to, 8, 0);
}

static void not_counted(void) {
    long long at = 0;
    struct mmsghdr message = {{0, 0, vector, 1, 0, 0, 0}, 0};
    MAKE(splice, only_read, &at, pipes[1], 0, 8, 0);
    MAKE(splice, pipes[0], 0, other, 0, 8, 0);
    MAKE(vmsplice, pipes[1], vector, 1, 0, 0, 0);
    MAKE(tee, pipes[0], pipes[1], 8, 0, 0, 0);
    MAKE(getdents64, directory, buffer, 4096, 0, 0, 0);
    MAKE(sendto, sockets[0], buffer, 8, 0, 0, 0);
    MAKE(recvfrom, sockets[1], buffer, 8, 0, 0, 0);
    MAKE(sendmsg, sockets[0], &message.msg_hdr, 0, 0, 0, 0);
    MAKE(recvmsg, sockets[1], &message.msg_hdr, 0, 0, 0, 0);
    MAKE(sendmmsg, sockets[0], &message, 1, 0, 0, 0);
    MAKE(recvmmsg, sockets[1], &message, 1, 0, 0, 0);
    MAKE(lseek, file, 0, SEEK_SET, 0, 0, 0);
    MAKE(fsync, file, 0, 0, 0, 0, 0);
    MAKE(ftruncate, file, 4096, 0, 0, 0, 0);
    MAKE(readahead, file, 0, 4096, 0, 0, 0);
    MAKE(fallocate, file, 0, 0, 8192, 0, 0);
}

int main(int count, char **arguments) {
    /* A directory, and one on another file system. */
    char name[2][512];
    if (count < 3)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    snprintf(name[0], sizeof name[0], "%s/counted", arguments[1]);
    snprintf(name[1], sizeof name[1], "%s/counted", arguments[2]);
    books = open("/proc/self/io", O_RDONLY);
    file = open(name[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
    write(file, buffer, sizeof buffer);
    lseek(file, 0, SEEK_SET);
    only_read = open(name[0], O_RDONLY);
    only_write = open(name[0], O_WRONLY);
    direct = open(name[0], O_RDONLY | O_DIRECT);
    other = open(name[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    directory = open(arguments[1], O_RDONLY | O_DIRECTORY);
    null = open("/dev/null", O_RDWR);
    full = open("/dev/full", O_RDWR);
    epoll = epoll_create1(0);
    event = eventfd(0, EFD_NONBLOCK);
    pipe2(pipes, O_NONBLOCK);
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets);
    plain();
    vectored();
    between_files();
    not_counted();
    unlink(name[0]);
    unlink(name[1]);
    return 0;
}
