/*
 * Paths that begin at a directory which is not known, and files whose names are not, in the
 * directory that is given. The files asked for are not there: their names state whether the path is
 * certain.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void must(int is_done, const char *what) {
    if (!is_done) {
        perror(what);
        exit(1);
    }
}

static void removed(void) {
    must(!mkdir("w", 0755) && !chdir("w"), "w");
    unlink("certain-1");
    must(!rmdir("../w") && !mkdir("../w", 0755), "w again");
    unlink("removed");
}

static void interrupts(int number) { (void)number; }

static void *opens(void *nothing) {
    must(open("fifo", O_WRONLY) < 0, "interrupted");
    return nothing;
}

static void raced(const char *top) {
    pthread_t thread;
    struct sigaction action = {.sa_handler = interrupts};
    sigaction(SIGUSR1, &action, NULL);
    must(!chdir(top) && !mkdir("d1", 0755) && !mkdir("d2", 0755), "d1");
    must(!mkfifo("d1/fifo", 0600) && !chdir("d1"), "fifo");
    pthread_create(&thread, NULL, opens, NULL);
    usleep(200000);
    must(!chdir("../d2"), "d2");
    unlink("certain-2");
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
}

static void deep(const char *top) {
    char part[201];
    memset(part, 'x', 200);
    part[200] = 0;
    must(!chdir(top), top);
    for (int i = 0; i < 23; i++) must(!mkdir(part, 0755) && !chdir(part), "deep");
    int fd = open("deep-old", O_CREAT | O_RDWR, 0644);
    must(write(fd, "1", 1) == 1 && !rename("deep-old", "deep-new") && write(fd, "22", 2) == 2, "deep");
}

static void taken(const char *top) {
    must(!chdir(top), top);
    int fd = open("taken", O_CREAT | O_RDWR, 0644), process = syscall(SYS_pidfd_open, getpid(), 0);
    int same = syscall(SYS_pidfd_getfd, process, fd, 0);
    must(same >= 0 && write(same, "0123456789a", 11) == 11 && write(fd, "0123456789abc", 13) == 13, "taken");
}

static void mounts(const char *top) {
    must(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "unshare");
    must(!chdir(top) && !mkdir("from", 0755) && !mkdir("to", 0755), "from");
    must(!mount("t", "from", "tmpfs", 0, NULL), "mount");
    int fd = open("from/file", O_CREAT | O_RDWR, 0644), directory = open("from", O_RDONLY | O_DIRECTORY);
    must(write(fd, "0123456789abcdef0", 17) == 17 && !fchdir(directory), "file");
    unlink("certain-3");
    char from[4096], to[4096];
    snprintf(from, sizeof from, "%s/from", top);
    snprintf(to, sizeof to, "%s/to", top);
    must(!mount(from, to, NULL, MS_MOVE, NULL) && write(fd, "0123456789abcdef012", 19) == 19, "move");
    unlink("moved");
    must(!umount2(to, MNT_DETACH) && write(fd, "0123456789abcdef0123456", 23) == 23, "umount");
}

int main(int count, char **arguments) {
    const char *top = arguments[count - 1];
    must(!chdir(top), top);
    removed();
    raced(top);
    deep(top);
    taken(top);
    mounts(top);
    return 0;
}
