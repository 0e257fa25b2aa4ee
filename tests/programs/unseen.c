// Asks io_submit for writes whose results no call fetches: of 4099 bytes in a context that is
// destroyed, and five times of 1013 bytes, whose results it takes from the context's memory; then
// the file is closed.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char bytes[4099];

static int ask(aio_context_t context, struct iocb *one, int file, unsigned count) {
  memset(one, 0, sizeof *one);
  one->aio_fildes = file;
  one->aio_lio_opcode = IOCB_CMD_PWRITE;
  one->aio_buf = (unsigned long)bytes;
  one->aio_nbytes = count;
  return syscall(SYS_io_submit, context, 1, &one) != 1;
}

int main(int argc, char **argv) {
  aio_context_t first = 0, second = 0;
  struct iocb one;
  if (argc != 2 || syscall(SYS_io_setup, 8, &first) || syscall(SYS_io_setup, 8, &second)) return 1;
  for (int again = 0; again < 2; again++) {
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (again == 0 && (ask(first, &one, file, 4099) || syscall(SYS_io_destroy, first))) return 1;
    for (int i = 0; again == 1 && i < 5; i++) {
      // id, number, head, tail: fs/aio.c
      volatile unsigned *ring = (volatile unsigned *)second;
      if (ask(second, &one, file, 1013)) return 1;
      while (ring[2] == ring[3]) {
      }
      ring[2] = (ring[2] + 1) % ring[1];
    }
    if (close(file)) return 1;
  }
  return 0;
}
