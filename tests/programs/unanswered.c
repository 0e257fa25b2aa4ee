// unanswered FILE SERVER: maps FILE, tells the server of its file system to answer nothing more (SIGUSR1), and gives the kernel a path that
// would have to be read from there: of a call that fails before the kernel itself reads it. Later another process opens what is not there:
// 50 times no-such-file-N. All of it on one CPU.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    if (sched_setaffinity(0, sizeof first, &first)) return 3;
    pid_t other = fork();
    if (!other) {
        usleep(3000000);
        for (int i = 0; i < 50; i++) {
            char name[64];
            snprintf(name, sizeof name, "no-such-file-%d", i);
            if (open(name, O_RDONLY) >= 0) return 1;
            usleep(1000);
        }
        return 0;
    }
    int file = open(argv[1], O_RDONLY);
    char *path = mmap(0, 8192, PROT_READ, MAP_SHARED, file, 0);
    if (file < 0 || path == MAP_FAILED || kill(atoi(argv[2]), SIGUSR1)) return 4;
    usleep(200000);
    for (int i = 0; i < 3; i++)
        // build_open_flags() in fs/open.c: nothing is made for reading only.
        if (syscall(SYS_openat, AT_FDCWD, path, O_TMPFILE | O_RDONLY) != -1 || errno != EINVAL) return 5;
    int status;
    return waitpid(other, &status, 0) == other ? status : 6;
}
