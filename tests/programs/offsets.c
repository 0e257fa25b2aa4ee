// Reads and writes in every way that has a file position, and writes down the true places.
//
//   offsets launch DIR    each way of sharing a position, once; then ends
//   offsets attach DIR    four threads that read and write until DIR/stop is there
//
// The truth does not come from counting. Words that are read give their place: each word of
// DIR/data.words holds its own offset. Each write has a number of its own, which is looked for in
// the file at the end. DIR/truth gets one line for each call on a DIR/data.* file, in the order of
// each thread:
//
//   TID CALL RESULT OFFSET MUST     OFFSET -1: the call moved nothing; MUST 1: a tracer can know
//                                   the offset
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 8192, WORD = 8, ENTRIES = 1 << 20, THREADS = 4, FILES = 16 };

struct entry {
    int tid, must, file;  // file >= 0: what was written is to be looked for there
    const char *call;
    long result, offset;
    uint64_t number;
};

static struct entry *entries;  // shared with children
static atomic_long *used;
static const char *dir;
static char words_path[4096], files[FILES][4096];

static void fail(const char *what) {
    perror(what);
    exit(99);
}

static long check(long result, const char *what) {
    if (result < 0) fail(what);
    return result;
}

static struct entry *note(const char *call, long result, int must) {
    long place = atomic_fetch_add(used, 1);
    if (place >= ENTRIES) {
        fputs("too many entries\n", stderr);
        exit(99);
    }
    struct entry *it = &entries[place];
    *it = (struct entry){.tid = gettid(), .must = must, .file = -1, .call = call, .result = result < 0 ? -errno : result, .offset = -1};
    return it;
}

// A call that read words: the first one gives the place.
static void did_read(const char *call, long result, const void *buffer, int must) {
    struct entry *it = note(call, result, must);
    if (result > 0) memcpy(&it->offset, buffer, WORD);
}

// A call whose place the program knows by itself.
static void did_at(const char *call, long result, long offset, int must) {
    note(call, result, must)->offset = offset;
}

static uint64_t new_number(void) {
    static atomic_uint_least64_t *next;
    if (!next) next = (void *)&entries[ENTRIES];
    return atomic_fetch_add(next, 1) + 1;
}

// A call that wrote a number into a file.
static void did_write(const char *call, long result, int file, uint64_t number, int must) {
    struct entry *it = note(call, result, must);
    it->file = file;
    it->number = number;
}

static int open_words(void) { return check(open(words_path, O_RDONLY), "open words"); }

static int open_file(int file, int flags) {
    snprintf(files[file], sizeof files[file], "%s/data.%d", dir, file);
    return check(open(files[file], flags | O_RDWR | O_CREAT, 0600), files[file]);
}

static void read_words(int fd, int count, int must) {
    uint64_t buffer[WORDS];
    did_read("read", read(fd, buffer, (size_t)count * WORD), buffer, must);
}

static void write_number(int fd, int file, int must) {
    uint64_t number = new_number();
    did_write("write", write(fd, &number, sizeof number), file, number, must);
}

static void pread_words(int fd, int count, long offset) {
    uint64_t buffer[WORDS];
    did_read("pread64", pread(fd, buffer, (size_t)count * WORD, offset), buffer, 1);
}

static void pwrite_number(int fd, int file, long offset, int must) {
    uint64_t number = new_number();
    did_write("pwrite64", pwrite(fd, &number, sizeof number, offset), file, number, must);
}

static void alone(void) {
    uint64_t a[64], b[64];
    int fd = open_words();
    read_words(fd, 100, 1);
    read_words(fd, 1, 1);
    int twin = check(dup(fd), "dup");
    read_words(twin, 3, 1);
    read_words(fd, 5, 1);
    int third = check(fcntl(fd, F_DUPFD_CLOEXEC, 50), "F_DUPFD");
    check(dup2(third, 60), "dup2");
    close(fd);
    read_words(60, 7, 1);
    read_words(third, 2, 1);
    check(lseek(twin, 8000, SEEK_SET), "lseek");
    read_words(third, 4, 1);
    check(lseek(third, -16, SEEK_CUR), "lseek");
    read_words(twin, 1, 1);
    struct iovec parts[2] = {{a, sizeof a}, {b, 40}};
    did_read("readv", readv(twin, parts, 2), a, 1);
    did_read("preadv2", preadv2(twin, parts, 2, -1, 0), a, 1);
    did_read("preadv2", preadv2(twin, parts, 2, 4096, 0), a, 1);
    did_read("preadv", preadv(twin, parts, 1, 64), a, 1);
    pread_words(twin, 9, 32768);
    read_words(twin, 1, 1);
    long end = check(lseek(twin, 0, SEEK_END), "lseek");
    did_at("read", read(twin, a, sizeof a), end, 0);
    check(lseek(twin, 800, SEEK_SET), "lseek");
    void *volatile nowhere = (void *)1;
    note("read", read(twin, nowhere, 8), 0);
    read_words(twin, 1, 1);
    close(60);
    close(third);
    close(twin);
}

static void family(void) {
    int fd = open_words();
    read_words(fd, 10, 1);
    for (int child = 0; child < 3; child++) {
        pid_t pid = check(child == 2 ? (long)fork() : syscall(SYS_fork), "fork");
        if (pid == 0) {
            for (int i = 0; i < 5; i++) read_words(fd, i + 1, child < 2);
            _exit(0);
        }
        // The first children run one after the other, the last ones all at once.
        if (child < 2) check(waitpid(pid, NULL, 0), "waitpid");
        read_words(fd, 2, child < 2);
    }
    for (int i = 0; i < 200; i++) read_words(fd, 1, 0);
    while (wait(NULL) > 0) {
    }
    check(lseek(fd, 24, SEEK_SET), "lseek");
    read_words(fd, 2, 1);
    close(fd);
}

static void writes(void) {
    int fd = open_file(0, 0);
    for (int i = 0; i < 5; i++) write_number(fd, 0, 1);
    pwrite_number(fd, 0, 400, 1);
    write_number(fd, 0, 1);
    uint64_t number = new_number();
    struct iovec part = {&number, sizeof number};
    did_write("writev", writev(fd, &part, 1), 0, number, 1);
    number = new_number();
    did_write("pwritev", pwritev(fd, &part, 1, 800), 0, number, 1);
    number = new_number();
    did_write("pwritev2", pwritev2(fd, &part, 1, -1, 0), 0, number, 1);
    number = new_number();
    did_write("pwritev2", pwritev2(fd, &part, 1, 0, RWF_APPEND), 0, number, 0);
    write_number(fd, 0, 1);
    close(fd);
}

static void appends(void) {
    int fd = open_file(1, O_APPEND), other = open_file(1, O_APPEND);
    uint64_t back;
    for (int i = 0; i < 5; i++) {
        write_number(fd, 1, 0);
        write_number(other, 1, 0);
    }
    // Linux appends at any offset (pwrite(2), BUGS).
    pwrite_number(fd, 1, 0, 0);
    check(lseek(fd, 16, SEEK_SET), "lseek");
    did_at("read", read(fd, &back, sizeof back), 16, 1);
    write_number(fd, 1, 0);
    check(fcntl(fd, F_SETFL, 0), "F_SETFL");
    check(lseek(fd, 4000, SEEK_SET), "lseek");
    write_number(fd, 1, 1);
    check(fcntl(fd, F_SETFL, O_APPEND), "F_SETFL");
    check(lseek(fd, 0, SEEK_SET), "lseek");
    write_number(fd, 1, 0);
    did_at("read", read(fd, &back, sizeof back), 4016, 0);
    close(fd);
    close(other);
}

static void transfers(void) {
    int in = open_words(), out = open_file(2, 0);
    read_words(in, 4, 1);
    check(sendfile(out, in, NULL, 80), "sendfile");
    read_words(in, 1, 1);
    write_number(out, 2, 1);
    off_t from = 160;
    check(sendfile(out, in, &from, 80), "sendfile");
    read_words(in, 1, 1);
    check(copy_file_range(in, NULL, out, NULL, 40, 0), "copy_file_range");
    read_words(in, 1, 1);
    write_number(out, 2, 1);
    int ends[2];
    check(pipe(ends), "pipe");
    check(splice(in, NULL, ends[1], NULL, 48, 0), "splice");
    read_words(in, 1, 1);
    loff_t at = 4096;
    check(splice(ends[0], NULL, out, &at, 24, 0), "splice");
    check(splice(ends[0], NULL, out, NULL, 24, 0), "splice");
    write_number(out, 2, 1);
    close(ends[0]);
    close(ends[1]);
    close(in);
    close(out);
}

static int common_fd, common_append;
static pthread_barrier_t all_opened;

// Races on the same position: only the kernel knows the order.
static void *racer(void *argument) {
    (void)argument;
    int own = open_words();
    for (int i = 0; i < 500; i++) {
        read_words(common_fd, 1, 0);
        read_words(own, 2, 1);
        write_number(common_append, 3, 0);
        if (i % 100 == 99) check(lseek(common_fd, 8 * i, SEEK_SET), "lseek");
    }
    close(own);
    return NULL;
}

static int stopped(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/stop", dir);
    // Or when there is no more room for lines.
    return access(path, F_OK) == 0 || atomic_load(used) > ENTRIES * 3 / 4;
}

// A thread that is attached to: it works on a file of its own, and two that it shares.
static void *worker(void *argument) {
    int file = 4 + (int)(intptr_t)argument;
    int own = open_words(), mine = open_file(file, 0);
    pthread_barrier_wait(&all_opened);
    for (long round = 0; !stopped(); round++) {
        for (int i = 0; i < 20; i++) {
            // The offset is known after the first lseek at the latest: the test requires it.
            read_words(own, 1 + i % 3, 1);
            pread_words(own, 2, 8 * (round % 1000));
            write_number(mine, file, 1);
            pwrite_number(mine, file, 1 << 20, 1);
            read_words(common_fd, 1, 0);
            write_number(common_append, 3, 0);
        }
        check(lseek(own, 8 * (round % 1000), SEEK_SET), "lseek");
        check(lseek(mine, 0, SEEK_END), "lseek");
        if (round % 7 == 0) check(lseek(common_fd, 0, SEEK_SET), "lseek");
        usleep(5000);
    }
    return NULL;
}

static void run_threads(void *(*body)(void *)) {
    common_fd = open_words();
    common_append = open_file(3, O_APPEND);
    pthread_barrier_init(&all_opened, NULL, THREADS + 1);
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, body, (void *)i)) fail("pthread_create");
    if (body == worker) {
        pthread_barrier_wait(&all_opened);
        puts("ready");
        fflush(stdout);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

// The places of the written numbers, by number; 0: the number is overwritten.
static long *find_written(void) {
    long *places = calloc(ENTRIES, sizeof *places);
    for (int file = 0; file < FILES; file++) {
        if (!files[file][0]) continue;
        // Mapped: a read here would be one more call on the file.
        int fd = check(open(files[file], O_RDONLY), files[file]);
        long bytes = check(lseek(fd, 0, SEEK_END), "lseek");
        uint64_t *words = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (words == MAP_FAILED) fail("mmap");
        for (long at = 0; at + WORD <= bytes; at += WORD) {
            uint64_t word = words[at / WORD];
            if (word > WORDS * WORD && word - WORDS * WORD < ENTRIES) places[word - WORDS * WORD] = at + 1;
        }
        close(fd);
    }
    return places;
}

static void tell_truth(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/truth", dir);
    FILE *out = fopen(path, "w");
    if (!out) fail(path);
    long *places = find_written();
    for (long i = 0; i < *used; i++) {
        struct entry *it = &entries[i];
        long offset = it->file >= 0 ? places[it->number - WORDS * WORD] - 1 : it->offset;
        fprintf(out, "%d %s %ld %ld %d\n", it->tid, it->call, it->result, offset, it->must);
    }
    if (fclose(out)) fail(path);
}

int main(int count, char **arguments) {
    if (count != 3) return 98;
    dir = arguments[2];
    snprintf(words_path, sizeof words_path, "%s/data.words", dir);
    size_t bytes = (ENTRIES + 1) * sizeof *entries + sizeof *used;
    entries = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (entries == MAP_FAILED) fail("mmap");
    used = (atomic_long *)&entries[ENTRIES + 1];
    // Numbers begin where offsets of words end.
    atomic_store((atomic_uint_least64_t *)&entries[ENTRIES], WORDS * WORD);
    if (strcmp(arguments[1], "launch") == 0) {
        alone();
        family();
        writes();
        appends();
        transfers();
        run_threads(racer);
    } else {
        run_threads(worker);
    }
    tell_truth();
    return 0;
}
