/* What scripts/vm/run-check-names records: calls whose paths are known. What was
 * done is written to the file of the first argument at the end, a line for each
 * call: thread, name of the tracepoint, result, path, second path (each in
 * hexadecimal digits, - for none), where the path leads (the same), and for
 * reads and writes the position, - if there is none. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS_MAX = 20000, THREADS = 4, FILES = 150, SPELLED_MAX = 4096 };

struct done {
    int thread;
    const char *call;
    long result;
    char *path, *second, *whole;
    long offset;
};

static struct done done[CALLS_MAX];
static int count;

static struct done *note(const char *call, const char *path, const char *second)
{
    int place = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    if (place >= CALLS_MAX) abort();
    struct done *it = &done[place];
    it->thread = (int)syscall(SYS_gettid);
    it->call = call;
    it->path = path ? strdup(path) : NULL;
    it->second = second ? strdup(second) : NULL;
    it->offset = -1;
    return it;
}

/* The path is noted before the call and its buffer is overwritten after it, as
 * programs do. */
#define ONE(NAME, PATH, ...) do { \
        struct done *it = note(#NAME, PATH, NULL); \
        it->result = syscall(SYS_##NAME, __VA_ARGS__); \
        if (it->result < 0) it->result = -errno; \
        last = it->result; \
    } while (0)
#define TWO(NAME, PATH, SECOND, ...) do { \
        struct done *it = note(#NAME, PATH, SECOND); \
        it->result = syscall(SYS_##NAME, __VA_ARGS__); \
        if (it->result < 0) it->result = -errno; \
        last = it->result; \
    } while (0)

static __thread long last;

static void opened(const char *path, int flags, const char *whole)
{
    struct done *it = note("openat", path, NULL);
    it->result = syscall(SYS_openat, AT_FDCWD, path, flags, 0644);
    if (it->result < 0) it->result = -errno;
    it->whole = whole ? strdup(whole) : NULL;
    last = it->result;
}

static void moved(const char *call, int number, int fd, const char *whole, long offset)
{
    char buffer[100] = "seventeen bytes..";
    struct done *it = note(call, NULL, NULL);
    it->result = syscall(number, fd, buffer, 17);
    if (it->result < 0) it->result = -errno;
    it->whole = strdup(whole);
    it->offset = offset;
}

static void *work(void *argument)
{
    long number = (long)argument;
    char path[SPELLED_MAX], second[SPELLED_MAX], whole[SPELLED_MAX + 100], here[1000];
    if (!getcwd(here, sizeof here)) abort();
    for (int i = 0; i < FILES; i++) {
        /* Always the same memory. */
        snprintf(path, sizeof path, i % 2 ? "t%ld-%d" : "./t%ld-%d", number, i);
        snprintf(whole, sizeof whole, "%s/t%ld-%d", here, number, i);
        opened(path, O_CREAT | O_RDWR, whole);
        strcpy(path, "overwritten");
        moved("write", SYS_write, (int)last, whole, 0);
        if (i % 3) close((int)last);
        snprintf(path, sizeof path, "t%ld-%d", number, i);
        snprintf(second, sizeof second, "r%ld-%d", number, i);
        TWO(rename, path, second, path, second);
        ONE(stat, second, second, &(struct stat){ 0 });
        ONE(access, path, path, F_OK);
        opened(path, O_RDONLY, NULL);
        if (i % 5 == 0) TWO(link, second, path, second, path);
        ONE(unlink, second, second);
    }
    return NULL;
}

static void special(const char *path, int flags)
{
    opened(path, flags, path);
    int fd = (int)last;
    moved("write", SYS_write, fd, path, -1);
    close(fd);
}

static void others(void)
{
    char path[SPELLED_MAX], here[1000], whole[SPELLED_MAX];
    if (!getcwd(here, sizeof here)) abort();
    const char *strange[] = { "with space", "line\nbreak", "\303\244\346\227\245", "\377\201raw", "a...", "(fault)" };
    for (unsigned i = 0; i < sizeof strange / sizeof *strange; i++) {
        snprintf(whole, sizeof whole, "%s/%s", here, strange[i]);
        opened(strange[i], O_CREAT | O_RDWR, whole);
        int fd = (int)last;
        moved("write", SYS_write, fd, whole, 0);
        moved("write", SYS_write, fd, whole, 17);
        moved("read", SYS_read, fd, whole, 34);
        close(fd);
    }
    int lengths[] = { 62, 63, 64, 165, 166, 1000, 2000, 3500, 3900, 4095 };
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int j = 0; j < lengths[i]; j++) path[j] = j % 100 == 99 ? '/' : 'x';
        path[lengths[i] < SPELLED_MAX ? lengths[i] : SPELLED_MAX - 1] = 0;
        opened(path, O_RDONLY, NULL);
    }
    ONE(mkdir, "dir", "dir", 0755);
    /* The path of a symbolic link is the first here, what it contains the second. */
    TWO(symlink, "dir/link", "../somewhere", "../somewhere", "dir/link");
    ONE(readlink, "dir/link", "dir/link", path, sizeof path);
    ONE(truncate, "a...", "a...", 5);
    ONE(chmod, "a...", "a...", 0600);
    ONE(statfs, "dir", "dir", path);
    TWO(renameat2, "a...", "dir/b", AT_FDCWD, "a...", AT_FDCWD, "dir/b", 0);
    TWO(linkat, "dir/b", "dir/c", AT_FDCWD, "dir/b", AT_FDCWD, "dir/c", 0);
    TWO(linkat, "missing", "dir/d", AT_FDCWD, "missing", AT_FDCWD, "dir/d", 0);
    ONE(unlinkat, "dir/c", AT_FDCWD, "dir/c", 0);
    ONE(rmdir, "missing", "missing");
    snprintf(whole, sizeof whole, "%s/dir", here);
    opened("dir", O_RDONLY | O_DIRECTORY, whole);
    int directory = (int)last;
    struct done *it = note("openat", "b", NULL);
    it->result = syscall(SYS_openat, directory, "b", O_RDWR);
    snprintf(whole, sizeof whole, "%s/dir/b", here);
    it->whole = strdup(whole);
    moved("write", SYS_write, (int)it->result, whole, 0);
    special("/dev/null", O_WRONLY);
    special("/dev/zero", O_RDWR);
    mkfifo("pipe", 0600);
    snprintf(whole, sizeof whole, "%s/pipe", here);
    opened("pipe", O_RDWR, whole);
    moved("write", SYS_write, (int)last, whole, -1);
    ONE(chdir, "dir", "dir");
    snprintf(whole, sizeof whole, "%s/dir/e", here);
    opened("e", O_CREAT | O_WRONLY, whole);
    moved("write", SYS_write, (int)last, whole, 0);
    ONE(execve, "/missing/program", "/missing/program", NULL, NULL);
    ONE(openat, NULL, AT_FDCWD, 8, O_RDONLY);
}

static void digits(FILE *out, const char *text)
{
    if (!text) fputs(" -", out);
    else if (!*text) fputs(" .", out);
    else fputc(' ', out);
    for (; text && *text; text++) fprintf(out, "%02x", (unsigned char)*text);
}

int main(int arguments, char **argument)
{
    if (arguments != 2) return 2;
    FILE *out = fopen(argument[1], "w");
    if (!out) return 1;
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    others();
    for (int i = 0; i < count; i++) {
        struct done *it = &done[i];
        fprintf(out, "%d %s %ld", it->thread, it->call, it->result);
        digits(out, it->path);
        digits(out, it->second);
        digits(out, it->whole);
        fprintf(out, it->offset < 0 ? " -\n" : " %ld\n", it->offset);
    }
    return fclose(out) != 0;
}
