// A rank of a parallel job, without MPI: its number is that of the launcher's variables.
//
//   rank_io DIRECTORY END
//
// writes to a file that all ranks share and to one of its own, and reads the latter. Prints its
// rank, its process, and the bytes that it has written and read, without the line itself.
// END: `ok`; `exit`: status 7 for rank 1; `signal`: SIGSEGV for rank 2; `first`: SIGKILL for
// rank 0 at once, the others after 30 s.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const variables[] = {
    "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "FLUX_TASK_RANK",
};

static char bytes[4099];

int main(int count, char **words)
{
    const char *text = NULL;
    char name[4096];
    long written = 0, read_bytes = 0;
    for (unsigned place = 0; place < 4 && text == NULL; place++)
        text = getenv(variables[place]);
    if (count != 3 || text == NULL)
        return 90;
    int rank = atoi(text);
    snprintf(name, sizeof name, "%s/shared", words[1]);
    int shared = open(name, O_WRONLY | O_CREAT, 0666);
    for (int number = 0; number < 23 + rank; number++)
        written += pwrite(shared, bytes, 4099, (rank * 64L + number) * 4099);
    snprintf(name, sizeof name, "%s/own.%d", words[1], rank);
    int own = open(name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    for (int number = 0; number < 7 + rank; number++)
        written += write(own, bytes, 1009);
    for (int number = 0; number < 3 + rank; number++)
        read_bytes += pread(own, bytes, 127, number * 127L);
    if (close(own) || close(shared))
        return 91;
    char line[128];
    int length =
        snprintf(line, sizeof line, "%d %d %ld %ld\n", rank, getpid(), written, read_bytes);
    if (write(1, line, length) != length)
        return 92;
    if (strcmp(words[2], "exit") == 0 && rank == 1)
        return 7;
    if (strcmp(words[2], "signal") == 0 && rank == 2)
        raise(SIGSEGV);
    if (strcmp(words[2], "first") == 0) {
        if (rank == 0)
            raise(SIGKILL);
        sleep(30);
    }
    return 0;
}
