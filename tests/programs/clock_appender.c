// Appends the monotonic clock (8 bytes, nanoseconds) to a file every 0.2 ms for some seconds; then
// exits with 7.
//
//   clock_appender FILE SECONDS
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int main(int count, char **arguments) {
    if (count != 3) return 98;
    int fd = open(arguments[1], O_WRONLY | O_CREAT | O_EXCL, 0600);
    uint64_t end = now() + strtoull(arguments[2], NULL, 10) * 1000000000u;
    for (uint64_t time = now(); time < end; time = now()) {
        if (write(fd, &time, sizeof time) != sizeof time) return 99;
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return 7;
}
