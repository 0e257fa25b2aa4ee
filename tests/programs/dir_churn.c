// Makes, renames, asks for, reads and removes files in directories of its own, again and again: in
// the folder of the first argument, with the second argument as the number of rounds. Each step
// needs the one before.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void need(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    char text[4096] = {0};
    struct stat st;
    need(argc == 3 && chdir(argv[1]) == 0, "chdir");
    for (long i = atol(argv[2]); i > 0; i--) {
        need(mkdir("directory", 0755) == 0, "mkdir");
        int fd = open("directory/a file", O_WRONLY | O_CREAT | O_EXCL, 0644);
        need(fd >= 0, "open");
        need(write(fd, text, 997) == 997 && write(fd, text, 3) == 3, "write");
        need(close(fd) == 0, "close");
        need(rename("directory/a file", "directory/\"b\"<c>\n") == 0, "rename");
        need(stat("directory/a file", &st) == -1, "stat");
        need(stat("directory/\"b\"<c>\n", &st) == 0 && st.st_size == 1000, "stat");
        fd = open("directory/\"b\"<c>\n", O_RDONLY);
        need(fstat(fd, &st) == 0, "fstat");
        need(fd >= 0 && read(fd, text, sizeof text) == 1000 && read(fd, text, 1) == 0, "read");
        need(lseek(fd, 500, SEEK_SET) == 500 && read(fd, text, 100) == 100, "lseek");
        need(close(fd) == 0, "close");
        need(unlink("directory/\"b\"<c>\n") == 0 && rmdir("directory") == 0, "unlink");
    }
    return 0;
}
