// Two processes have different files under the same names, and a thread has descriptors of its own.
//
//   namespaces DIR LOG     DIR is an empty directory; needs root
//
// LOG gets a line `PID OFFSET BYTES DELETED` for each read of BYTES at OFFSET of the file
// `DIR/sub/file` or `DIR/sub/other`: 1 if the name was removed before where the reader is. The
// parent's file is 100 bytes long, the child's 10.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *log_file;

static long must(long result, const char *what) {
    if (result < 0) {
        perror(what);
        _exit(99);
    }
    return result;
}
#define MUST(call) must((long)(call), #call)

static int make(const char *path, int bytes) {
    char data[100] = {0};
    int fd = MUST(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
    MUST(write(fd, data, bytes));
    MUST(lseek(fd, 0, SEEK_SET));
    return fd;
}

static void look(int fd, long offset, int deleted) {
    char data[100];
    long bytes = MUST(read(fd, data, sizeof data));
    fprintf(log_file, "%d %ld %ld %d\n", getpid(), offset, bytes, deleted);
    fflush(log_file);
    MUST(lseek(fd, 0, SEEK_SET));
}

static void *alone(void *fd_of) {
    int fd = *(int *)fd_of;
    MUST(unshare(CLONE_FILES));
    // The others still have it.
    MUST(close(fd));
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    log_file = fopen(argv[2], "w");
    MUST(chdir(argv[1]));
    MUST(mkdir("sub", 0700));
    int ready[2], go[2];
    char byte = 'x';
    MUST(pipe(ready));
    MUST(pipe(go));
    int fd = make("sub/file", 100);
    pid_t child = MUST(fork());
    if (child == 0) {
        MUST(unshare(CLONE_NEWNS));
        MUST(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
        MUST(mount("none", "sub", "tmpfs", 0, NULL));
        MUST(chdir(argv[1]));
        int own = make("sub/file", 10);
        look(own, 0, 0);
        MUST(write(ready[1], &byte, 1));
        MUST(read(go[0], &byte, 1));
        // The parent has removed its file of this name.
        look(own, 0, 0);
        MUST(unlink("sub/file"));
        look(own, 0, 1);
        _exit(0);
    }
    MUST(read(ready[0], &byte, 1));
    look(fd, 0, 0);
    MUST(unlink("sub/file"));
    look(fd, 0, 1);
    pthread_t thread;
    if (pthread_create(&thread, NULL, alone, &fd) != 0) return 98;
    pthread_join(thread, NULL);
    look(fd, 0, 1);
    MUST(write(go[1], &byte, 1));
    int status;
    MUST(waitpid(child, &status, 0));
    return status != 0;
}
