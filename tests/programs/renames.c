// Opens files and gives them other names, in every way that there is.
//
//   renames DIR LOG     files are made in DIR, an empty directory
//
// After each step every open file is read at the offset of the step, and LOG gets a line
// `OFFSET NAME`: what the kernel calls the file at that moment, from /proc/self/fd.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(call) must((long)(call), #call)

static FILE *log_file;
static int files[8];
static int count;
static long step;

static long must(long result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(99);
    }
    return result;
}

static int made(const char *path) {
    int fd = (int)MUST(open(path, O_RDWR | O_CREAT, 0600));
    files[count++] = fd;
    return fd;
}

static void look(void) {
    char byte;
    for (int i = 0; i < count; i++) {
        char link[64], name[4096];
        long offset = ++step;
        MUST(pread(files[i], &byte, 1, offset));
        snprintf(link, sizeof link, "/proc/self/fd/%d", files[i]);
        ssize_t length = MUST(readlink(link, name, sizeof name - 1));
        name[length] = 0;
        fprintf(log_file, "%ld %s\n", offset, name);
    }
    fflush(log_file);
}

int main(int words, char **word) {
    if (words != 3) return 98;
    MUST(chdir(word[1]));
    log_file = fopen(word[2], "w");
    MUST(mkdir("d", 0700));
    MUST(mkdir("e", 0700));
    MUST(mkdir("e/deep", 0700));
    made("a");
    made("d/b");
    made("e/deep/c");
    look();
    MUST(rename("a", "a2"));
    look();
    MUST(rename("e", "d/e"));
    look();
    int dir = (int)MUST(open("d", O_RDONLY | O_DIRECTORY));
    MUST(renameat(dir, "b", AT_FDCWD, "b2"));
    look();
    MUST(renameat2(AT_FDCWD, "b2", dir, "e", 2));  // RENAME_EXCHANGE
    look();
    MUST(renameat2(AT_FDCWD, "a2", AT_FDCWD, "a3", 1));  // RENAME_NOREPLACE
    look();
    made("over");
    MUST(rename("a3", "over"));
    look();
    MUST(unlinkat(dir, "e", 0));
    look();
    int again = open("d/e", O_RDWR | O_CREAT, 0600);
    files[count++] = again;
    look();
    MUST(chdir("d"));
    MUST(rename("../over", "up"));
    look();
    MUST(rename("../d", "../moved"));
    look();
    MUST(rename("up", "up2"));
    look();
    // The child has the same files; its parent moves them.
    int ends[2];
    MUST(pipe(ends));
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        char byte;
        close(ends[1]);
        if (read(ends[0], &byte, 1) < 0) _exit(1);
        step = 500;
        look();
        _exit(0);
    }
    MUST(rename("up2", "for the child"));
    close(ends[1]);
    int status;
    MUST(waitpid(child, &status, 0));
    if (status != 0) return 97;
    look();
    // From here on names may be doubtful: through a symbolic link, and back out of it.
    step = 1000;
    MUST(symlink("moved", "../link"));
    MUST(rename("../link/for the child", "../link/through"));
    look();
    MUST(unlink("../link/../link/e"));
    look();
    return 0;
}
