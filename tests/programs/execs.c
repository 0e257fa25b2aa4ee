// Children become programs that are given in many ways, and others that are not there.
//
//   execs DIR LOG      a link and a script are made in DIR, an empty directory
//
// LOG gets a line `PID CALL PATH ABSOLUTE` before each exec that is to succeed: what the call is
// given (`-`: nothing), and where it is; `PID CALL - -` before one that is to fail.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *log_file;
static char *no_arguments[] = {"program", NULL}, *no_environment[] = {NULL};

static long must(long result, const char *what) {
    if (result < 0) {
        perror(what);
        _exit(99);
    }
    return result;
}
#define MUST(call) must((long)(call), #call)

// With a directory: execveat.
static void run(int directory, const char *path, int flags, const char *absolute) {
    pid_t child = MUST(fork());
    if (child == 0) {
        int is_at = directory != AT_FDCWD;
        fprintf(log_file, "%d %s %s %s\n", getpid(), is_at ? "execveat" : "execve", *path ? path : "-", absolute);
        fflush(log_file);
        if (is_at) {
            syscall(SYS_execveat, directory, path, no_arguments, no_environment, flags);
        } else {
            execve(path, no_arguments, no_environment);
        }
        _exit(strcmp(absolute, "-") ? 98 : 0);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    if (status != 0) _exit(97);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    log_file = fopen(argv[2], "w");
    MUST(chdir(argv[1]));
    MUST(symlink("/bin/true", "link"));
    FILE *script = fopen("script", "w");
    fputs("#!/bin/true\n", script);
    fclose(script);
    MUST(chmod("script", 0755));
    char link[4096], script_path[4096];
    snprintf(link, sizeof link, "%s/link", argv[1]);
    snprintf(script_path, sizeof script_path, "%s/script", argv[1]);
    run(AT_FDCWD, "./link", 0, link);
    run(AT_FDCWD, link, 0, link);
    run(AT_FDCWD, "./script", 0, script_path);
    // Closed by the exec that it is given to.
    int directory = MUST(open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    run(directory, "link", 0, link);
    run(directory, link, 0, link);
    int file = MUST(open("/bin/true", O_RDONLY | O_CLOEXEC));
    char name[4096], of_file[64];
    snprintf(of_file, sizeof of_file, "/proc/self/fd/%d", file);
    name[MUST(readlink(of_file, name, sizeof name - 1))] = 0;
    run(file, "", AT_EMPTY_PATH, name);
    run(AT_FDCWD, "./none", 0, "-");
    run(directory, "none", 0, "-");
    return 0;
}
