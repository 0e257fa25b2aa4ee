// Waits 100 ms and more at each of a pipe, a socket, an eventfd and a timerfd, then writes and
// syncs a file 211 times.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int ends[2], peers[2];
  char byte[8];
  if (argc != 2 || pipe2(ends, O_CLOEXEC) || socketpair(AF_UNIX, SOCK_STREAM, 0, peers)) return 1;
  int event = eventfd(0, 0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
  struct itimerspec later = {.it_value.tv_nsec = 100000000};
  if (fork() == 0) {
    uint64_t one = 1;
    usleep(150000);
    if (write(ends[1], "x", 1) != 1) return 1;
    usleep(100000);
    if (write(peers[1], "x", 1) != 1) return 1;
    usleep(100000);
    return write(event, &one, 8) != 8;
  }
  if (read(ends[0], byte, 1) != 1 || read(peers[0], byte, 1) != 1 || read(event, byte, 8) != 8) return 1;
  if (timerfd_settime(timer, 0, &later, 0) || read(timer, byte, 8) != 8) return 1;
  int file = open(argv[1], O_WRONLY | O_CREAT, 0600);
  for (int i = 0; i < 211; i++)
    if (write(file, "0123456", 7) != 7 || fsync(file)) return 1;
  return wait(0) < 0;
}
