// Runs another program, and prints how long each of its OPERATIONS took. This process is between
// the tracer and the program, so that the start and the end of the tracer do not count.
//
//   timed OPERATIONS STDIN PROGRAM [ARGUMENT…]       its standard output is thrown away
#include "workload.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int words, char **word) {
    if (words < 4) usage("timed OPERATIONS STDIN PROGRAM [ARGUMENT…]");
    uint64_t count = strtoull(word[1], NULL, 10);
    uint64_t since = now_ns();
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
        int in = open(word[2], O_RDONLY), out = open("/dev/null", O_WRONLY);
        check(in >= 0, word[2]);
        check(dup2(in, 0) == 0 && dup2(out, 1) == 1, "dup2");
        execvp(word[3], word + 3);
        check(0, word[3]);
    }
    int status;
    check(waitpid(child, &status, 0) == child, "waitpid");
    if (status != 0) {
        fprintf(stderr, "%s ended with status %d\n", word[3], WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        return 99;
    }
    report(since, count);
    return 0;
}
