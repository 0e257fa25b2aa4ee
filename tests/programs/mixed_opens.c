// mixed_opens DIR THREADS EACH LOG: threads that open, in any order, objects with a name and
// without: the same few files again and again, directories, devices, FIFOs, nothing, paths without
// a file (O_PATH), and files that are renamed or removed at once. Writes "TID RESULT PATH" for each
// call.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES = 5, PATH_BYTES = 512 };

static const char *dir;
static int each;
static FILE *out;

struct entry {
    int result;
    char path[PATH_BYTES];
};

static int opened(const char *path, int flags) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
    return fd < 0 ? -errno : fd;
}

static int opened2(const char *path, int flags) {
    struct open_how how = {.flags = (unsigned long)flags};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    return fd < 0 ? -errno : fd;
}

static void one(struct entry *it, unsigned *seed, int thread, int number) {
    char other[PATH_BYTES + 8];
    unsigned kind = rand_r(seed) % 16;
    snprintf(it->path, PATH_BYTES, "%s/file-%u", dir, rand_r(seed) % FILES);
    switch (kind) {
    case 0:
        strcpy(it->path, "/dev/null");
        it->result = opened(it->path, O_RDWR);
        break;
    case 1:
        it->result = opened(it->path, O_PATH);
        break;
    case 2:
        it->result = opened2(it->path, O_PATH);
        break;
    case 3:
        it->result = opened2(it->path, O_RDONLY);
        break;
    case 4:
        snprintf(it->path, PATH_BYTES, "%s/fifo", dir);
        it->result = opened(it->path, O_RDWR);
        break;
    case 5:
        snprintf(it->path, PATH_BYTES, "%s/missing", dir);
        it->result = opened(it->path, O_RDONLY);
        break;
    case 6:
        snprintf(it->path, PATH_BYTES, "%s", dir);
        it->result = opened(it->path, rand_r(seed) % 2 ? O_RDONLY | O_DIRECTORY : O_WRONLY);
        break;
    case 7:
    case 8:
        snprintf(it->path, PATH_BYTES, "%s/new-%d-%d", dir, thread, number);
        it->result = opened(it->path, O_RDWR | O_CREAT | O_EXCL);
        snprintf(other, sizeof other, "%s.moved", it->path);
        if (kind == 7) {
            rename(it->path, other);
        }
        unlink(kind == 7 ? other : it->path);
        break;
    default:
        it->result = opened(it->path, O_RDONLY);
    }
    if (it->result >= 0) {
        close(it->result);
    }
}

static void *work(void *argument) {
    int thread = (int)(long)argument;
    unsigned seed = 4099u + (unsigned)thread;
    struct entry *all = calloc((size_t)each, sizeof *all);
    for (int number = 0; number < each; number++) {
        one(&all[number], &seed, thread, number);
    }
    flockfile(out);
    for (int number = 0; number < each; number++) {
        fprintf(out, "%ld %d %s\n", syscall(SYS_gettid), all[number].result, all[number].path);
    }
    funlockfile(out);
    free(all);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        return 2;
    }
    dir = argv[1];
    int threads = atoi(argv[2]);
    each = atoi(argv[3]);
    out = fopen(argv[4], "w");
    char path[PATH_BYTES];
    for (int number = 0; number < FILES; number++) {
        snprintf(path, sizeof path, "%s/file-%d", dir, number);
        close(open(path, O_WRONLY | O_CREAT, 0600));
    }
    snprintf(path, sizeof path, "%s/fifo", dir);
    mkfifo(path, 0600);
    pthread_t ids[64];
    for (long number = 0; number < threads; number++) {
        pthread_create(&ids[number], NULL, work, (void *)number);
    }
    for (int number = 0; number < threads; number++) {
        pthread_join(ids[number], NULL);
    }
    return fclose(out);
}
