// Two processes on one CPU send a byte to and fro through pipes: two reads, two writes and two
// switches each time.
//
//   ping_pong ROUND_TRIPS
#include "workload.h"

#include <sys/wait.h>
#include <unistd.h>

static void pass_on(int from, int to) {
    char byte;
    check(read(from, &byte, 1) == 1, "read");
    check(write(to, &byte, 1) == 1, "write");
}

int main(int words, char **word) {
    if (words != 2) usage("ping_pong ROUND_TRIPS");
    uint64_t count = strtoull(word[1], NULL, 10);
    int there[2], back[2];
    pin(0);
    check(pipe(there) == 0 && pipe(back) == 0, "pipe");
    pid_t other = fork();
    check(other >= 0, "fork");
    if (other == 0) {
        for (uint64_t i = 0; i < count; i++) pass_on(there[0], back[1]);
        _exit(0);
    }
    uint64_t since = now_ns();
    check(write(there[1], "", 1) == 1, "write");
    for (uint64_t i = 1; i < count; i++) pass_on(back[0], there[1]);
    char byte;
    check(read(back[0], &byte, 1) == 1, "read");
    report(since, count);
    waitpid(other, NULL, 0);
    return 0;
}
