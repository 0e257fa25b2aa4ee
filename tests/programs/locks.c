// locks DIR TURNS: four processes lock a file in turn, and append a record to another one whose
// number they read, change and write. At first all of them are refused by their parent; now and
// then one is by another, two read together, and a child of theirs ends without an unlock.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 4
#define RECORD 101

static const char *directory;

static int opened(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_CREAT | O_RDWR, 0644);
    if (fd < 0)
        _exit(1);
    return fd;
}

static void check(int is_right) {
    if (!is_right)
        _exit(1);
}

static void append(int number, int data) {
    char record[RECORD];
    long count;
    memset(record, 'r', sizeof record);
    check(pread(number, &count, sizeof count, 0) == sizeof count);
    check(pwrite(data, record, RECORD, count * RECORD) == RECORD);
    count++;
    check(pwrite(number, &count, sizeof count, 0) == sizeof count);
}

static void work(int me, int turns, int ready) {
    int lock = opened("lock"), number = opened("number"), data = opened("data");
    char byte = 0;
    check(flock(lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK);
    check(flock(lock, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK);
    check(write(ready, &byte, 1) == 1);
    for (int turn = 0; turn < turns; turn++) {
        if (turn % 3 || flock(lock, LOCK_EX | LOCK_NB))
            check(!flock(lock, LOCK_EX));
        append(number, data);
        check(!flock(lock, LOCK_UN));
        if (turn % 7 == me) {
            long count;
            check(!flock(lock, LOCK_SH));
            check(pread(number, &count, sizeof count, 0) == sizeof count);
            check(!flock(lock, LOCK_UN));
        }
        if (turn % 5 == me && !fork()) {
            int own = opened("lock");
            check(!flock(own, LOCK_EX));
            append(number, data);
            _exit(0);
        }
    }
    int status, failed = 0;
    while (wait(&status) > 0)
        failed |= status;
    _exit(failed != 0);
}

int main(int count, char **arguments) {
    directory = arguments[1];
    int turns = atoi(arguments[2]), ready[2], status, failed = count != 3;
    char byte;
    long none = 0;
    int lock = opened("lock"), number = opened("number");
    check(pwrite(number, &none, sizeof none, 0) == sizeof none && !pipe(ready));
    check(!flock(lock, LOCK_EX));
    for (int me = 0; me < PROCESSES; me++)
        if (!fork()) {
            close(lock);
            work(me, turns, ready[1]);
        }
    for (int me = 0; me < PROCESSES; me++)
        check(read(ready[0], &byte, 1) == 1);
    check(!flock(lock, LOCK_UN));
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
