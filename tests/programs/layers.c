/* Reads, writes and syncs a file so many times, in primes: see tests/recording/layers.rs
 * and scripts/vm/check_layers_compare.py. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 4096, WRITES = 11, SYNCS = 5, READS = 13, DIRECT_WRITES = 7, DIRECT_READS = 3 };

static void must(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    void *memory;
    must(argc == 2 && posix_memalign(&memory, BYTES, BYTES) == 0, "memory");
    /* Newer kernels begin a write and find only then that they cannot copy. */
    memset(memory, 7, BYTES);
    int fd = open(argv[1], O_CREAT | O_RDWR, 0600);
    must(fd >= 0, argv[1]);
    for (int at = 0; at < WRITES; at++) {
        must(pwrite(fd, memory, BYTES, (off_t)at * BYTES) == BYTES, "pwrite");
        if (at < SYNCS)
            must(fsync(fd) == 0, "fsync");
    }
    for (int at = 0; at < READS; at++)
        must(pread(fd, memory, BYTES, (off_t)(at % WRITES) * BYTES) == BYTES, "pread");
    close(fd);
    fd = open(argv[1], O_RDWR | O_DIRECT);
    must(fd >= 0, argv[1]);
    for (int at = 0; at < DIRECT_WRITES; at++)
        must(pwrite(fd, memory, BYTES, (off_t)at * BYTES) == BYTES, "direct pwrite");
    for (int at = 0; at < DIRECT_READS; at++)
        must(pread(fd, memory, BYTES, (off_t)at * BYTES) == BYTES, "direct pread");
    close(fd);
    return 0;
}
