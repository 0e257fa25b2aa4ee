// Reads and writes of 4 KiB by turns in the first MiB of a file, which stays in the page cache: one
// directly after the other, or one in each interval of GAP_NS nanoseconds.
//
//   rewrites COUNT FILE GAP_NS
#include "workload.h"

#include <fcntl.h>
#include <unistd.h>

#define BLOCK_BYTES 4096
#define BLOCKS 256

int main(int words, char **word) {
    if (words != 4) usage("rewrites COUNT FILE GAP_NS");
    uint64_t count = strtoull(word[1], NULL, 10), gap = strtoull(word[3], NULL, 10);
    static char block[BLOCK_BYTES];
    int fd = open(word[2], O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    check(fd >= 0, word[2]);
    for (off_t i = 0; i < BLOCKS; i++)
        check(pwrite(fd, block, BLOCK_BYTES, i * BLOCK_BYTES) == BLOCK_BYTES, "pwrite");
    uint64_t since = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        while (gap && now_ns() < since + i * gap) {
        }
        off_t place = (off_t)(i * 7 % BLOCKS * BLOCK_BYTES);
        ssize_t moved = i % 2 ? pwrite(fd, block, BLOCK_BYTES, place) : pread(fd, block, BLOCK_BYTES, place);
        check(moved == BLOCK_BYTES, "pread, pwrite");
    }
    report(since, count);
    return 0;
}
