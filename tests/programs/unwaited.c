/* Children that write and that are not waited for: `none`; whose accounting the kernel throws away:
 * `ignored` (SIGCHLD); that are children of the parent: `parent` (CLONE_PARENT); or, to compare,
 * `waited`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count < 2)
        return 2;
    int file = open("/dev/null", O_WRONLY);
    if (strcmp(arguments[1], "parent") == 0) {
        for (int number = 0; number < 20; number++) {
            if (syscall(SYS_clone, CLONE_PARENT, 0, 0, 0, 0) == 0) {
                write(file, "12345", 5);
                _exit(0);
            }
        }
        usleep(200000);
        return 0;
    }
    if (strcmp(arguments[1], "ignored") == 0)
        signal(SIGCHLD, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        write(file, "12345", 5);
        write(file, "12345", 5);
        _exit(0);
    }
    if (strcmp(arguments[1], "waited") == 0)
        waitpid(child, 0, 0);
    else
        usleep(100000);
    return 0;
}
