// staggered_exits DIR CHILDREN FILES MS: so many children open so many files each, and wait for one
// another, and MS milliseconds. Then every other one ends without a close, the others become
// another program, which cannot have them. As long again later all is over, and DIR is looked at
// once more.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void child(const char *directory, int number, int files, char **again, int ready, int go) {
    char path[300], byte = 0;
    for (int file = 0; file < files; file++) {
        snprintf(path, sizeof path, "%s/f%d-%d", directory, number, file);
        if (open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644) < 0)
            _exit(1);
    }
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 0)
        _exit(1);
    if (number % 2)
        execv("/proc/self/exe", again);
    _exit(number % 2);
}

int main(int count, char **arguments) {
    if (count == 3 && !strcmp(arguments[1], "wait")) {
        poll(NULL, 0, atoi(arguments[2]));
        return 0;
    }
    const char *directory = arguments[1];
    int children = atoi(arguments[2]), files = atoi(arguments[3]), ready[2], go[2];
    char *again[] = {arguments[0], "wait", arguments[4], NULL};
    if (pipe2(ready, O_CLOEXEC) || pipe2(go, O_CLOEXEC))
        return 1;
    for (int number = 0; number < children; number++)
        if (!fork()) {
            close(go[1]);
            child(directory, number, files, again, ready[1], go[0]);
        }
    char byte;
    for (int number = 0; number < children; number++)
        if (read(ready[0], &byte, 1) != 1)
            return 1;
    poll(NULL, 0, atoi(arguments[4]));
    close(go[1]);
    int status, failed = 0;
    while (wait(&status) > 0)
        failed |= status;
    return failed || access(directory, R_OK);
}
