// Threads that open, read and close files of their own as fast as they can, and write down which
// file each open got.
//
//   storm DIR THREADS FILES        makes DIR/T/N, each of which holds its own path
//   storm DIR THREADS FILES LOG    opens each once; LOG: "TID FD WHAT STANDS IN THE FILE" for each,
//                                  in the order of a thread
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONTENT_BYTES 256

struct open {
    int fd;
    char content[CONTENT_BYTES];
};

static const char *dir;
static long threads, files;
static pid_t *tids;
static struct open *opens;
static pthread_barrier_t start;

static void fail(const char *what) {
    perror(what);
    exit(99);
}

static void path_of(char *path, long thread, long file) {
    snprintf(path, PATH_MAX, "%s/%ld/%ld", dir, thread, file);
}

static void make(void) {
    char path[PATH_MAX];
    for (long thread = 0; thread < threads; thread++) {
        snprintf(path, sizeof path, "%s/%ld", dir, thread);
        if (mkdir(path, 0700) != 0) fail(path);
        for (long file = 0; file < files; file++) {
            path_of(path, thread, file);
            int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
            size_t length = strlen(path);
            if (length >= CONTENT_BYTES || write(fd, path, length) != (ssize_t)length || close(fd) != 0) fail(path);
        }
    }
}

// The buffer of the path is the same each time: a name that is read too late is that of the next
// file.
static void *work(void *argument) {
    long thread = (long)argument;
    char path[PATH_MAX];
    tids[thread] = gettid();
    pthread_barrier_wait(&start);
    for (long file = 0; file < files; file++) {
        struct open *it = &opens[thread * files + file];
        path_of(path, thread, file);
        it->fd = open(path, O_RDONLY);
        if (it->fd < 0 || read(it->fd, it->content, CONTENT_BYTES - 1) <= 0 || close(it->fd) != 0) fail(path);
    }
    return NULL;
}

int main(int words, char **word) {
    if (words != 4 && words != 5) return 98;
    dir = word[1];
    threads = atol(word[2]);
    files = atol(word[3]);
    if (words == 4) {
        make();
        return 0;
    }
    pthread_t handles[threads];
    tids = calloc(threads, sizeof *tids);
    opens = calloc(threads * files, sizeof *opens);
    if (!tids || !opens || pthread_barrier_init(&start, NULL, threads) != 0) fail("no memory");
    for (long thread = 0; thread < threads; thread++)
        if (pthread_create(&handles[thread], NULL, work, (void *)thread) != 0) fail("pthread_create");
    for (long thread = 0; thread < threads; thread++) pthread_join(handles[thread], NULL);
    FILE *log = fopen(word[4], "w");
    if (!log) fail(word[4]);
    for (long thread = 0; thread < threads; thread++)
        for (long file = 0; file < files; file++) {
            struct open *it = &opens[thread * files + file];
            fprintf(log, "%d %d %s\n", tids[thread], it->fd, it->content);
        }
    return fclose(log) != 0;
}
