// Makes every system call of the table, most of them so that they succeed and some so that they
// fail.
//
//   calls DIR     files are made in DIR, an empty directory
//
// Calls that the kernel or the machine does not allow fail here and are recorded all the same. All
// calls are made by number, so that no C library puts another one in their place.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT AT_FDCWD
#define CALL(name, ...) syscall(SYS_##name, ##__VA_ARGS__)
// Makes a descriptor and closes it.
#define MADE(name, ...) syscall(SYS_close, syscall(SYS_##name, ##__VA_ARGS__))

static char buffer[65536];

static int must(long result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(99);
    }
    return (int)result;
}

static void opens(void) {
    int fd = must(CALL(openat, AT, "file", O_RDWR | O_CREAT, 0600), "openat");
    CALL(write, fd, buffer, 4099);
    CALL(close, fd);
#ifdef SYS_open
    MADE(open, "file", O_RDONLY);
    MADE(creat, "made", 0600);
    CALL(open, "not there", O_RDONLY);
#endif
    uint64_t how[3] = {O_RDONLY, 0, 0};
    MADE(openat2, AT, "./file", how, sizeof how);
    CALL(openat2, AT, "not there", how, sizeof how);
    CALL(openat, AT, "directory/not there", O_RDONLY);
    CALL(openat, 99, "relative to nothing", O_RDONLY);
    int dir = must(CALL(openat, AT, ".", O_RDONLY | O_DIRECTORY), "openat .");
    MADE(openat, dir, "file", O_RDONLY);
    CALL(close, dir);
    CALL(close, 99);
    CALL(close_range, 50, 60, 0);
    CALL(open_tree, AT, ".", 0x1 | O_CLOEXEC);
    // Without a right handle it fails.
    int handle[2] = {0, 1};
    CALL(open_by_handle_at, AT, handle, O_RDONLY);
}

static void data(void) {
    int fd = must(CALL(openat, AT, "file", O_RDWR), "openat");
    struct iovec parts[2] = {{buffer, 100}, {buffer + 200, 50}};
    CALL(read, fd, buffer, 1000);
    CALL(lseek, fd, 4000, SEEK_SET);
    CALL(read, fd, buffer, 1000);  // short
    CALL(read, fd, buffer, 1000);  // the end
    CALL(read, 99, buffer, 10);
    CALL(pread64, fd, buffer, 500, 77);
    CALL(pwrite64, fd, buffer, 500, 78);
    CALL(lseek, fd, 10, SEEK_SET);
    CALL(readv, fd, parts, 2);
    CALL(writev, fd, parts, 2);
    CALL(preadv, fd, parts, 2, 20, 0);
    CALL(pwritev, fd, parts, 2, 30, 0);
    CALL(preadv2, fd, parts, 2, 40, 0, 0);
    CALL(pwritev2, fd, parts, 2, 50, 0, 0);
    int out = must(CALL(openat, AT, "copy", O_RDWR | O_CREAT, 0600), "openat");
    CALL(lseek, fd, 0, SEEK_SET);
    CALL(sendfile, out, fd, NULL, 300);
    CALL(copy_file_range, fd, NULL, out, NULL, 200, 0);
    int ends[2], others[2];
    must(CALL(pipe2, ends, O_CLOEXEC), "pipe2");
#ifdef SYS_pipe
    must(CALL(pipe, others), "pipe");
#else
    must(CALL(pipe2, others, 0), "pipe2");
#endif
    CALL(splice, fd, NULL, ends[1], NULL, 64, 0);
    CALL(tee, ends[0], others[1], 32, 0);
    CALL(vmsplice, others[1], parts, 1, 0);
    CALL(read, ends[0], buffer, 10);
    CALL(fsync, out);
    CALL(fdatasync, out);
    CALL(sync_file_range, out, 0, 100, SYNC_FILE_RANGE_WRITE);
    CALL(syncfs, out);
    CALL(fsync, 99);
    int twin = (int)CALL(dup, out);
#ifdef SYS_dup2
    CALL(dup2, out, 70);
#endif
    CALL(dup3, out, 71, O_CLOEXEC);
    CALL(fcntl, out, F_DUPFD_CLOEXEC, 72);
    CALL(fcntl, out, F_GETFL);
    CALL(close_range, 70, 80, 0);
    CALL(close, twin);
    CALL(ftruncate, out, 9000);
    CALL(truncate, "copy", 8000);
    CALL(truncate, "not there", 8000);
    CALL(fallocate, out, 0, 100, 9000);
    CALL(fadvise64, out, 0, 100, POSIX_FADV_WILLNEED);
    CALL(readahead, out, 0, 4096);
    CALL(flock, out, LOCK_EX);
    CALL(ioctl, out, 0x5401, buffer);  // TCGETS: not a terminal
    char *mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, out, 0);
    if (mapped != MAP_FAILED) {
        mapped[5] = 1;
        CALL(msync, mapped, 8192, MS_SYNC);
        CALL(madvise, mapped, 8192, MADV_SEQUENTIAL);
        void *moved = mremap(mapped, 8192, 16384, MREMAP_MAYMOVE);
        munmap(moved == MAP_FAILED ? mapped : moved, 16384);
    }
    CALL(close, ends[0]);
    CALL(close, ends[1]);
    CALL(close, others[0]);
    CALL(close, others[1]);
    CALL(close, out);
    CALL(close, fd);
}

static void names(void) {
    CALL(mkdirat, AT, "directory", 0700);
    int dir = must(CALL(openat, AT, "directory", O_RDONLY | O_DIRECTORY), "openat");
    CALL(mkdirat, dir, "sub", 0700);
    CALL(mknodat, dir, "fifo", S_IFIFO | 0600, 0);
    CALL(linkat, AT, "file", dir, "hard", 0);
    CALL(symlinkat, "../file", dir, "soft");
    CALL(renameat, dir, "hard", dir, "harder");
    CALL(renameat2, dir, "harder", AT, "\xff odd\nname", 0);
    CALL(unlinkat, AT, "\xff odd\nname", 0);
    CALL(unlinkat, dir, "not there", 0);
    CALL(unlinkat, dir, "sub", AT_REMOVEDIR);
    CALL(getdents64, dir, buffer, sizeof buffer);
#ifdef SYS_mkdir
    CALL(getdents, dir, buffer, sizeof buffer);
    CALL(mkdir, "second", 0700);
    CALL(mknod, "second/fifo", S_IFIFO | 0600, 0);
    CALL(link, "file", "second/hard");
    CALL(symlink, "file", "second/soft");
    CALL(rename, "second/hard", "second/harder");
    CALL(unlink, "second/harder");
    CALL(unlink, "not there");
    CALL(rmdir, "second");
#endif
    CALL(chdir, "directory");
    MADE(openat, AT, "soft", O_RDONLY);
    CALL(openat, AT, "relative", O_RDONLY);
    CALL(chdir, "..");
    CALL(fchdir, dir);
    CALL(faccessat, AT, "relative", R_OK);
    CALL(chdir, "..");
    CALL(chroot, "not there");
    CALL(setreuid, -1, -1);
    CALL(setresuid, -1, -1, -1);
    CALL(setuid, 0);
    CALL(close, dir);
}

static void attributes(void) {
    struct stat stat;
    struct statfs fs;
    struct timespec times[2] = {{1, 2}, {3, 4}};
    int fd = must(CALL(openat, AT, "file", O_RDWR), "openat");
    CALL(newfstatat, AT, "file", &stat, 0);
    CALL(newfstatat, fd, "", &stat, AT_EMPTY_PATH);
    CALL(fstat, fd, &stat);
    CALL(statx, AT, "file", 0, 0x7ff, buffer);
    CALL(statfs, ".", &fs);
    CALL(fstatfs, fd, &fs);
    CALL(faccessat, AT, "file", R_OK);
    CALL(faccessat2, AT, "not there", R_OK, 0);
    CALL(readlinkat, AT, "directory/soft", buffer, 100);
    CALL(fchmod, fd, 0600);
    CALL(fchmodat, AT, "file", 0600);
    CALL(fchown, fd, -1, -1);
    CALL(fchownat, AT, "file", -1, -1, 0);
    CALL(utimensat, AT, "file", times, 0);
    CALL(setxattr, "file", "user.a", "b", 1, 0);
    CALL(lsetxattr, "file", "user.a", "b", 1, 0);
    CALL(fsetxattr, fd, "user.a", "b", 1, 0);
    CALL(getxattr, "file", "user.a", buffer, 10);
    CALL(lgetxattr, "file", "user.a", buffer, 10);
    CALL(fgetxattr, fd, "user.a", buffer, 10);
    CALL(listxattr, "file", buffer, 100);
    CALL(llistxattr, "file", buffer, 100);
    CALL(flistxattr, fd, buffer, 100);
    CALL(removexattr, "file", "user.a");
    CALL(lremovexattr, "file", "user.a");
    CALL(fremovexattr, fd, "user.a");
    syscall(452, AT, "file", 0600, 0);            // fchmodat2
    syscall(463, AT, "file", 0, "user.a", buffer, 16);  // setxattrat
    syscall(464, AT, "file", 0, "user.a", buffer, 16);  // getxattrat
    syscall(465, AT, "file", 0, buffer, 10);      // listxattrat
    syscall(466, AT, "file", 0, "user.a");        // removexattrat
#ifdef SYS_stat
    struct timeval old[2] = {{1, 2}, {3, 4}};
    CALL(stat, "file", &stat);
    CALL(stat, "not there", &stat);
    CALL(lstat, "directory/soft", &stat);
    CALL(access, "file", R_OK);
    CALL(readlink, "directory/soft", buffer, 100);
    CALL(chmod, "file", 0600);
    CALL(chown, "file", -1, -1);
    CALL(lchown, "file", -1, -1);
    CALL(utime, "file", NULL);
    CALL(utimes, "file", old);
    CALL(futimesat, AT, "file", old);
#endif
    CALL(close, fd);
}

static void descriptors(void) {
    struct sockaddr_un nobody = {.sun_family = AF_UNIX, .sun_path = "nobody"};
    int ends[2];
    int made = (int)CALL(socket, AF_UNIX, SOCK_STREAM, 0);
    CALL(connect, made, &nobody, sizeof nobody);
    CALL(accept, made, NULL, NULL);
    CALL(accept4, made, NULL, NULL, 0);
    CALL(close, made);
    if (CALL(socketpair, AF_UNIX, SOCK_DGRAM, 0, ends) == 0) {
        struct iovec part = {buffer, 10};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        struct mmsghdr messages[1] = {{.msg_hdr = message}};
        CALL(sendto, ends[0], buffer, 10, 0, NULL, 0);
        CALL(recvfrom, ends[1], buffer, 10, 0, NULL, NULL);
        CALL(sendmsg, ends[0], &message, 0);
        CALL(recvmsg, ends[1], &message, 0);
        CALL(sendmmsg, ends[0], messages, 1, 0);
        CALL(recvmmsg, ends[1], messages, 1, 0, NULL);
        CALL(close, ends[0]);
        CALL(close, ends[1]);
    }
    sigset_t none;
    sigemptyset(&none);
    char zeroes[128] = {0};
    MADE(eventfd2, 0, 0);
    MADE(epoll_create1, 0);
    MADE(timerfd_create, 1, 0);
    MADE(signalfd4, -1, &none, 8, 0);
    MADE(inotify_init1, 0);
    MADE(memfd_create, "memory", 0);
    CALL(memfd_create, "too many flags", 0xffff);
#ifdef SYS_epoll_create
    MADE(eventfd, 0);
    MADE(epoll_create, 1);
    MADE(signalfd, -1, &none, 8);
    MADE(inotify_init);
#endif
    // Message queues may be forbidden, or not there.
    CALL(mq_open, "a/b", O_RDONLY, 0, NULL);
    CALL(perf_event_open, zeroes, 0, -1, -1, 0);
    CALL(fanotify_init, 0xffffffff, 0);
    CALL(userfaultfd, 0xffff);
    CALL(pidfd_open, -1, 0);
    CALL(pidfd_getfd, -1, 0, 0);
    CALL(fsopen, "no such file system", 0);
    CALL(fsmount, -1, 0, 0);
    CALL(fspick, AT, "not there", 0);
    CALL(bpf, 0xffff, NULL, 0);
    CALL(seccomp, 0xffff, 0, NULL);
    CALL(move_mount, AT, "not there", AT, "not there", 0);
    CALL(mount, "none", "not there", "tmpfs", 0, NULL);
    CALL(umount2, "not there", 0);
    CALL(pivot_root, "not there", "not there");
    CALL(setns, -1, 0);
    syscall(467, AT, "not there", 0, NULL, 0);  // open_tree_attr
    syscall(444, NULL, 0, 0xffff);  // landlock_create_ruleset
    syscall(447, 0xffff);           // memfd_secret
}

static void asynchronous(void) {
    aio_context_t context = 0;
    struct io_event event;
    struct timespec now = {0, 0};
    if (CALL(io_setup, 4, &context) == 0) {
        int fd = must(CALL(openat, AT, "file", O_RDWR), "openat");
        struct iocb block = {.aio_fildes = (uint32_t)fd, .aio_lio_opcode = IOCB_CMD_PREAD, .aio_buf = (uintptr_t)buffer, .aio_nbytes = 100};
        struct iocb *blocks[1] = {&block};
        CALL(io_submit, context, 1, blocks);
        CALL(io_getevents, context, 1, 1, &event, NULL);
        CALL(io_pgetevents, context, 0, 1, &event, &now, NULL);
        CALL(io_cancel, context, &block, &event);
        CALL(io_destroy, context);
        CALL(close, fd);
    }
    CALL(io_uring_setup, 0, buffer);
    CALL(io_uring_enter, -1, 0, 0, 0, NULL, 0);
    CALL(io_uring_register, -1, 0, NULL, 0);
}

static void processes(void) {
    CALL(unshare, CLONE_FILES);
    char *none[1] = {NULL};
    CALL(execve, "not there", none, none);
    CALL(execveat, AT, "not there", none, none, 0);
    pid_t child = (pid_t)CALL(clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
#ifdef SYS_fork
    child = (pid_t)CALL(fork);
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    child = vfork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
#endif
    uint64_t arguments[8] = {0, 0, 0, 0, SIGCHLD, 0, 0, 0};
    child = (pid_t)CALL(clone3, arguments, sizeof arguments);
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
}

int main(int words, char **word) {
    if (words != 2 || chdir(word[1]) != 0) return 98;
    opens();
    data();
    names();
    attributes();
    descriptors();
    asynchronous();
    processes();
    CALL(sync);
    return 0;
}
