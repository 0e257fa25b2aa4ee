// Reads of 4 KiB anywhere in a file: from the page cache, or past it, so that each waits for the
// disk.
//
//   preads COUNT FILE cached|direct
#include "workload.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES 4096

// xorshift64: the same places each time.
static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

int main(int words, char **word) {
    if (words != 4) usage("preads COUNT FILE cached|direct");
    uint64_t count = strtoull(word[1], NULL, 10);
    int is_direct = strcmp(word[3], "direct") == 0;
    pin(0);
    int fd = open(word[2], O_RDONLY | O_CLOEXEC | (is_direct ? O_DIRECT : 0));
    check(fd >= 0, word[2]);
    struct stat about;
    check(fstat(fd, &about) == 0, "fstat");
    uint64_t blocks = (uint64_t)about.st_size / BLOCK_BYTES;
    if (blocks == 0) usage("preads: the file must have 4 KiB at least");
    void *buffer;
    check(posix_memalign(&buffer, BLOCK_BYTES, BLOCK_BYTES) == 0, "posix_memalign");
    uint64_t state = 88172645463325252u;
    uint64_t since = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        off_t place = (off_t)(next(&state) % blocks * BLOCK_BYTES);
        check(pread(fd, buffer, BLOCK_BYTES, place) == BLOCK_BYTES, "pread");
    }
    report(since, count);
    return 0;
}
