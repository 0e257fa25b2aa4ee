// A parent sends open files to its child over a socket; both read them.
//
//   scm_rights DIR LOG     files are made in DIR, an empty directory
//
// LOG gets a line `OFFSET NAME` for each read of a byte at that offset: what the kernel calls the
// file at that moment.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *log_file;

static long must(long result, const char *what) {
    if (result < 0) {
        perror(what);
        _exit(99);
    }
    return result;
}
#define MUST(call) must((long)(call), #call)

static void look(int fd, long offset) {
    char byte, link[64], name[4096];
    MUST(pread(fd, &byte, 1, offset));
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = MUST(readlink(link, name, sizeof name - 1));
    name[length] = 0;
    fprintf(log_file, "%ld %s\n", offset, name);
    fflush(log_file);
}

union control {
    char bytes[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr head;
};

static void pass(int socket, const int *fds, int count) {
    union control control = {0};
    char byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    MUST(sendmsg(socket, &message, 0));
}

static void take(int socket, int *fds, int count, int many) {
    union control control = {0};
    char byte;
    struct iovec part = {&byte, 1};
    struct mmsghdr messages = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control}};
    if (many) MUST(recvmmsg(socket, &messages, 1, 0, NULL));
    else MUST(recvmsg(socket, &messages.msg_hdr, 0));
    // The message stays where it is, and the files stay open, until a reader on a busy machine has
    // looked at both.
    usleep(100000);
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&messages.msg_hdr)), count * sizeof(int));
}

static int made(const char *path) {
    int fd = (int)MUST(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
    MUST(write(fd, "0123456789", 10));
    return fd;
}

int main(int words, char **word) {
    if (words != 3) return 98;
    MUST(chdir(word[1]));
    log_file = fopen(word[2], "a");
    int ends[2], fds[2], status;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        // A number that was another file's before.
        int own = made("own");
        look(own, 1000);
        MUST(close(own));
        take(ends[1], fds, 2, 0);
        look(fds[0], 1001);
        look(fds[1], 1002);
        take(ends[1], fds, 1, 1);
        look(fds[0], 1003);
        // Moves what the parent has, too.
        MUST(lseek(fds[0], 3, SEEK_SET));
        MUST(write(ends[1], "y", 1));
        _exit(fds[0] == own);
    }
    int first[2] = {made("a"), made("b")};
    pass(ends[0], first, 2);
    int third = made("c");
    pass(ends[0], &third, 1);
    char byte;
    MUST(read(ends[0], &byte, 1));
    MUST(waitpid(child, &status, 0));
    // At 3, where the child has put it.
    MUST(read(third, &byte, 1));
    look(third, 1004);
    return byte == '3' ? 0 : 97;
}
