// Maps a file and touches known bytes of it.
//
//   maps DIR LOG [wait]     a file is made in DIR, an empty directory; `wait`: for a byte, before
//                           the first touch
//
// LOG gets a line for each touch that must make a fault: `ADDRESS OFFSET read|write`, the address
// in hexadecimal. Pages are so far apart that the kernel, which maps 16 at once, does not spare any
// of them a fault.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(call) must((long)(call), #call)

static FILE *log_file;
static long page;

static long must(long result, const char *what) {
    if (result == -1) {
        perror(what);
        exit(99);
    }
    return result;
}

static void touch(volatile char *address, long offset, int write) {
    fprintf(log_file, "%lx %ld %s\n", (long)address, offset, write ? "write" : "read");
    fflush(log_file);
    if (write) *address = 1;
    else (void)*address;
}

int main(int words, char **word) {
    if (words != 3 && words != 4) return 98;
    char byte;
    MUST(chdir(word[1]));
    log_file = fopen(word[2], "w");
    page = sysconf(_SC_PAGESIZE);
    int fd = (int)MUST(open("mapped", O_RDWR | O_CREAT, 0600));
    MUST(ftruncate(fd, 200 * page));
    long first = 64 * page;
    char *at = mmap(NULL, 128 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, first);
    if (at == MAP_FAILED) return 97;
    MUST(close(fd));
    if (words == 4) MUST(read(0, &byte, 1));
    touch(at + 7, first + 7, 0);
    touch(at + 32 * page, first + 32 * page, 0);
    touch(at + 64 * page + 100, first + 64 * page + 100, 1);
    MUST(msync(at + 64 * page, page, MS_SYNC));
    // Memory of no process.
    volatile char *nobody = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    nobody[0] = 1;
    MUST(rename("mapped", "renamed"));
    char *moved = mremap(at, 128 * page, 130 * page, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) return 96;
    touch(moved + 96 * page, first + 96 * page, 0);
    MUST(munmap(moved, 16 * page));
    MUST(madvise(moved + 32 * page, page, MADV_DONTNEED));
    touch(moved + 32 * page, first + 32 * page, 0);
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        touch(moved + 112 * page, first + 112 * page, 0);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    MUST(munmap(moved + 16 * page, 114 * page));
    return status;
}
