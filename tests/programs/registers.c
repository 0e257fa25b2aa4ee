/* Positions that are no positions, and `int` arguments in registers whose upper half holds
 * something. And what pipes and sockets move. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define UPPER 0x1122334400000000UL

int main(void) {
    static char buffer[4096];
    struct iovec vector = {buffer, 8};
    struct mmsghdr message = {{0, 0, &vector, 1, 0, 0, 0}, 0};
    int pipes[2], sockets[2];
    int file = open("positions", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int directory = open(".", O_RDONLY | O_DIRECTORY);
    write(file, buffer, 16);
    lseek(file, 4, SEEK_SET);
    preadv(file, &vector, 1, -1);
    pwritev(file, &vector, 1, -1);
    pread(file, buffer, 8, -1);
    preadv2(file, &vector, 1, -1, 0);
    syscall(SYS_fadvise64, file, -5L, 0, 0);
    syscall(SYS_getdents64, directory, buffer, UPPER | 2048);
    syscall(SYS_readlink, "/proc/self/exe", buffer, UPPER | 64);
    syscall(SYS_lseek, UPPER | file, 2, UPPER | SEEK_SET);
    syscall(SYS_read, UPPER | file, buffer, 3);
    pipe(pipes);
    vector.iov_len = 4096;
    vmsplice(pipes[1], &vector, 1, 0);
    read(pipes[0], buffer, 4096);
    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
    send(sockets[0], buffer, 100, 0);
    recv(sockets[1], buffer, 100, 0);
    vector.iov_len = 30;
    sendmsg(sockets[0], &message.msg_hdr, 0);
    recvmsg(sockets[1], &message.msg_hdr, 0);
    sendmmsg(sockets[0], &message, 1, 0);
    recvmmsg(sockets[1], &message, 1, 0, 0);
    unlink("positions");
    return 0;
}
