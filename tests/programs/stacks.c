// Reads and writes a file directly, each through functions of its own that keep their frames.
//
//   stacks FILE     writes 101 blocks of 4096 bytes in outer() > inner(), then reads 53 of 8192 in
//                   readers()
#pragma GCC optimize("no-omit-frame-pointer,no-optimize-sibling-calls,no-inline")
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *block;

__attribute__((noinline)) static int one(int fd, long number)
{
    int done = pwrite(fd, block, 4096, number * 4096) == 4096;
    __asm__ volatile("" ::: "memory");
    return done;
}

__attribute__((noinline)) static int inner(int fd)
{
    int done = 0;
    for (long number = 0; number < 101; number++)
        done += one(fd, number);
    return done;
}

__attribute__((noinline)) static int outer(int fd)
{
    int done = inner(fd);
    __asm__ volatile("" ::: "memory");
    return done;
}

__attribute__((noinline)) static int readers(int fd)
{
    int done = 0;
    for (long number = 0; number < 53; number++)
        done += pread(fd, block, 8192, number * 8192) == 8192;
    __asm__ volatile("" ::: "memory");
    return done;
}

int main(int count, char **words)
{
    int fd = count > 1 ? open(words[1], O_RDWR | O_DIRECT) : -1;
    if (fd < 0 || posix_memalign((void **)&block, 4096, 8192) != 0)
        return 2;
    memset(block, 7, 8192);
    return outer(fd) == 101 && readers(fd) == 53 ? 0 : 1;
}
