// Starts /bin/true, waits for it, and again.
//
//   fork_exec COUNT
#include "workload.h"

#include <sys/wait.h>
#include <unistd.h>

int main(int words, char **word) {
    if (words != 2) usage("fork_exec COUNT");
    uint64_t count = strtoull(word[1], NULL, 10);
    uint64_t since = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        pid_t child = fork();
        check(child >= 0, "fork");
        if (child == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(99);
        }
        int status;
        check(waitpid(child, &status, 0) == child && status == 0, "/bin/true");
    }
    report(since, count);
    return 0;
}
