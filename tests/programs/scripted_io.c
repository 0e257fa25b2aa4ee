// Works on a file by the commands of its input, and answers each when it is done: `w COUNT BYTES`
// writes, `r COUNT BYTES` reads, both in consecutive calls from the beginning on; `s` synchronises;
// `c COUNT BYTES` copies so many bytes inside the file, to 1 MiB.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
    int to = fd < 0 ? -1 : open(argv[1], O_WRONLY);
    static char bytes[1 << 20];
    char word[8];
    long count, size;
    if (to < 0) return 1;
    memset(bytes, 7, sizeof bytes);
    setvbuf(stdin, NULL, _IONBF, 0);
    puts("ready");
    fflush(stdout);
    while (scanf("%7s %ld %ld", word, &count, &size) == 3) {
        for (long at = 0; at < count; at++) {
            off_t from = at * size;
            ssize_t done = size;
            if (*word == 'w') done = pwrite(fd, bytes, size, from);
            if (*word == 'r') done = pread(fd, bytes, size, from);
            if (*word == 's') done = fsync(fd) == 0 ? size : -1;
            // Twice: the first shows whose position it is.
            for (int turn = 0; *word == 'c' && turn < 2; turn++)
                if (lseek(fd, 0, SEEK_SET) < 0 || lseek(to, 1 << 20, SEEK_SET) < 0) return 3;
            if (*word == 'c') done = copy_file_range(fd, NULL, to, NULL, size, 0);
            if (done != size) return 2;
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
