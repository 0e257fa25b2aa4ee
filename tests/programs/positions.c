// Reads and writes in all ways, and prints the place, the size and the file of each call.
//
//   positions DIR        files are made in DIR, an empty directory
//
// A line for each call: PID CALL FD PATH OFFSET BYTES RESULT FD2 OFFSET2; '-' for what a call has
// not. The position of a file is from /proc/self/fdinfo before the call: an lseek would show it to
// a tracer.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NONE (-1L)
#define CALL(name, ...) syscall(SYS_##name, ##__VA_ARGS__)

static char buffer[65536];
static struct iovec vector[2] = {{buffer, 100}, {buffer + 4096, 900}};

// The position of a descriptor; NONE if it has none.
static long stands(int fd) {
    char path[64], text[256], link[64];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "re");
    long position = NONE;
    if (file == NULL)
        return NONE;
    if (fgets(text, sizeof text, file) != NULL)
        sscanf(text, "pos: %ld", &position);
    fclose(file);
    // Only files have a position.
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, link, sizeof link - 1);
    return length > 0 && link[0] == '/' ? position : NONE;
}

static void where(int fd, char *into, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, into, size - 1);
    into[length < 0 ? 0 : length] = 0;
    if (length < 0)
        strcpy(into, "-");
}

static void number(char *into, long value) {
    sprintf(into, value == NONE ? "-" : "%ld", value);
}

// `path`: NULL for that of the descriptor now.
static long say(const char *call, int fd, const char *path, long offset, long bytes, long result, long fd2, long offset2) {
    char place[4096], words[5][32], line[8192];
    int error = errno;
    if (path == NULL)
        where(fd, place, sizeof place);
    else
        snprintf(place, sizeof place, "%s", path);
    number(words[0], fd);
    number(words[1], offset);
    number(words[2], bytes);
    number(words[3], fd2);
    number(words[4], offset2);
    for (char *it = place; *it; it++)
        if (*it == ' ')
            *it = '|';
    int length = snprintf(line, sizeof line, "%d %s %s %s %s %s %ld %s %s\n", getpid(), call, words[0], place, words[1],
                          words[2], result < 0 ? -error : result, words[3], words[4]);
    if (write(1, line, length) != length)
        exit(98);
    return result;
}

// A call that works at its own position.
#define AT_POSITION(fd, bytes, name, ...)                                                                             \
    do {                                                                                                               \
        long before = stands(fd), result = CALL(name, __VA_ARGS__);                                                    \
        say(#name, fd, NULL, before, bytes, result, NONE, NONE);                                                       \
    } while (0)
// A call that is given an offset.
#define AT_OFFSET(fd, offset, bytes, name, ...)                                                                       \
    do {                                                                                                               \
        long result = CALL(name, __VA_ARGS__);                                                                         \
        say(#name, fd, NULL, offset, bytes, result, NONE, NONE);                                                       \
    } while (0)

static int opened(const char *path, int flags) {
    int fd = CALL(openat, AT_FDCWD, path, flags, 0600);
    say("openat", fd, NULL, NONE, NONE, fd, NONE, NONE);
    return fd;
}

static void plain(void) {
    int fd = opened("plain", O_RDWR | O_CREAT);
    AT_POSITION(fd, 5000, write, fd, buffer, 5000);
    AT_POSITION(fd, 1000, writev, fd, vector, 2);
    AT_OFFSET(fd, 200, 300, pwrite64, fd, buffer, 300, 200);
    AT_OFFSET(fd, 6000, 1000, pwritev, fd, vector, 2, 6000, 0);
    AT_OFFSET(fd, 10, 1000, pwritev2, fd, vector, 2, 10, 0, 0);
    // Offset -1: the position of the descriptor.
    AT_POSITION(fd, 1000, pwritev2, fd, vector, 2, -1L, 0, 0);
    AT_POSITION(fd, 4096, read, fd, buffer, 4096);
    say("lseek", fd, NULL, NONE, NONE, CALL(lseek, fd, 100, SEEK_SET), NONE, NONE);
    AT_POSITION(fd, 4096, read, fd, buffer, 4096);
    AT_POSITION(fd, 1000, readv, fd, vector, 2);
    say("lseek", fd, NULL, NONE, NONE, CALL(lseek, fd, -100L, SEEK_END), NONE, NONE);
    // Shorter than asked for, then nothing.
    AT_POSITION(fd, 4096, read, fd, buffer, 4096);
    AT_POSITION(fd, 4096, read, fd, buffer, 4096);
    AT_OFFSET(fd, 7, 50, pread64, fd, buffer, 50, 7);
    AT_OFFSET(fd, 9, 1000, preadv, fd, vector, 2, 9, 0);
    AT_OFFSET(fd, 11, 1000, preadv2, fd, vector, 2, 11, 0, 0);
    say("lseek", fd, NULL, NONE, NONE, CALL(lseek, fd, 3, SEEK_SET), NONE, NONE);
    AT_POSITION(fd, 1000, preadv2, fd, vector, 2, -1L, 0, 0);
    say("lseek", fd, NULL, NONE, NONE, CALL(lseek, fd, -1L, SEEK_SET), NONE, NONE);
    AT_POSITION(fd, 20, read, fd, buffer, 20);
    say("read", 99, "-", NONE, 20, CALL(read, 99, buffer, 20), NONE, NONE);
    close(fd);
    fd = opened("plain", O_RDONLY);
    AT_POSITION(fd, 20, write, fd, buffer, 20);
    close(fd);
#ifdef SYS_creat
    fd = CALL(creat, "made", 0600);
    say("creat", fd, NULL, NONE, NONE, fd, NONE, NONE);
    AT_POSITION(fd, 11, write, fd, buffer, 11);
    close(fd);
#endif
    // The flags are in memory: where the kernel merged reports of opens of one moment, it is not
    // known which file such a call has opened.
    struct open_how how = {.flags = O_RDWR};
    usleep(20000);
    fd = CALL(openat2, AT_FDCWD, "plain", &how, sizeof how);
    usleep(20000);
    say("openat2", fd, NULL, NONE, NONE, fd, NONE, NONE);
    AT_POSITION(fd, 11, read, fd, buffer, 11);
    close(fd);
}

static void duplicated(void) {
    int fd = opened("plain", O_RDWR);
    int other = dup(fd), third = dup2(fd, 40), fourth = fcntl(fd, F_DUPFD_CLOEXEC, 50);
    AT_POSITION(fd, 100, read, fd, buffer, 100);
    AT_POSITION(other, 200, read, other, buffer, 200);
    AT_POSITION(third, 300, read, third, buffer, 300);
    AT_POSITION(fourth, 400, read, fourth, buffer, 400);
    // The child has the same description.
    pid_t child = fork();
    if (child == 0) {
        AT_POSITION(fd, 50, read, fd, buffer, 50);
        close(fd);
        AT_POSITION(other, 60, read, other, buffer, 60);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    AT_POSITION(fd, 70, read, fd, buffer, 70);
    // Another open is another description.
    int alone = opened("plain", O_RDONLY);
    AT_POSITION(alone, 80, read, alone, buffer, 80);
    CALL(close_range, 40, 50, 0);
    say("read", 40, "-", NONE, 5, CALL(read, 40, buffer, 5), NONE, NONE);
    AT_POSITION(other, 90, read, other, buffer, 90);
    close(alone);
    close(other);
    close(fd);
}

static void appended(void) {
    int fd = opened("appended", O_WRONLY | O_CREAT | O_APPEND);
    // Both writes go to the end of the file.
    AT_POSITION(fd, 111, write, fd, buffer, 111);
    AT_POSITION(fd, 111, write, fd, buffer, 111);
    fcntl(fd, F_SETFL, 0);
    say("lseek", fd, NULL, NONE, NONE, CALL(lseek, fd, 5, SEEK_SET), NONE, NONE);
    AT_POSITION(fd, 11, write, fd, buffer, 11);
    close(fd);
}

static void transferred(void) {
    int from = opened("plain", O_RDONLY), to = opened("copy", O_RDWR | O_CREAT);
    long at = stands(from), at2 = stands(to);
    say("sendfile64", from, NULL, at, 1000, CALL(sendfile, to, from, NULL, 1000), to, at2);
    off_t offset = 500;
    at2 = stands(to);
    say("sendfile64", from, NULL, 500, 1000, CALL(sendfile, to, from, &offset, 1000), to, at2);
    at = stands(from), at2 = stands(to);
    say("copy_file_range", from, NULL, at, 700, CALL(copy_file_range, from, NULL, to, NULL, 700, 0), to, at2);
    loff_t in = 10, out = 5000;
    say("copy_file_range", from, NULL, 10, 700, CALL(copy_file_range, from, &in, to, &out, 700, 0), to, 5000);
    AT_POSITION(from, 9, read, from, buffer, 9);
    AT_POSITION(to, 9, write, to, buffer, 9);
    int ends[2];
    if (pipe(ends) == 0) {
        at = stands(from);
        say("splice", from, NULL, at, 600, CALL(splice, from, NULL, ends[1], NULL, 600, 0), ends[1], NONE);
        loff_t into = 8000;
        say("splice", ends[0], NULL, NONE, 600, CALL(splice, ends[0], NULL, to, &into, 600, 0), to, 8000);
        AT_POSITION(from, 9, read, from, buffer, 9);
        say("write", ends[1], NULL, NONE, 5, CALL(write, ends[1], buffer, 5), NONE, NONE);
        say("read", ends[0], NULL, NONE, 9, CALL(read, ends[0], buffer, 9), NONE, NONE);
        close(ends[0]);
        close(ends[1]);
    }
    close(from);
    close(to);
}

static void *threads(void *argument) {
    int fd = *(int *)argument;
    for (int i = 0; i < 20; i++) {
        long result = CALL(pread64, fd, buffer, 10, i * 10);
        (void)result;
    }
    return NULL;
}

// Threads share the table; each position that one of them moves is seen by the other.
static void threaded(void) {
    int fd = opened("plain", O_RDONLY);
    pthread_t thread;
    pthread_create(&thread, NULL, threads, &fd);
    pthread_join(thread, NULL);
    AT_POSITION(fd, 33, read, fd, buffer, 33);
    close(fd);
}

static void renamed(void) {
    int fd = opened("before", O_RDWR | O_CREAT);
    AT_POSITION(fd, 40, write, fd, buffer, 40);
    rename("before", "behind");
    AT_POSITION(fd, 50, write, fd, buffer, 50);
    unlink("behind");
    AT_POSITION(fd, 60, write, fd, buffer, 60);
    close(fd);
}

static void in_memory(void) {
    int fd = CALL(memfd_create, "memory", 0);
    long at = stands(fd);
    long result = CALL(write, fd, buffer, 10);
    say("write", fd, "/memfd:memory|(deleted)", at, 10, result, NONE, NONE);
    close(fd);
}

// Goes on as another program, with an open file.
static void executed(const char *self) {
    int fd = opened("plain", O_RDONLY);
    AT_POSITION(fd, 44, read, fd, buffer, 44);
    char text[16];
    snprintf(text, sizeof text, "%d", fd);
    execl(self, self, "-", text, NULL);
    _exit(97);
}

int main(int argc, char **argv) {
    if (argc == 3) {
        int fd = atoi(argv[2]);
        AT_POSITION(fd, 55, read, fd, buffer, 55);
        return 0;
    }
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (argc != 2 || length < 0 || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: positions DIR\n");
        return 2;
    }
    self[length] = 0;
    plain();
    duplicated();
    appended();
    transferred();
    threaded();
    renamed();
    in_memory();
    executed(self);
}
