// MPI-IO: collective and independent writes to one shared file, and a file for each rank.
//
//   mpicc -o mpi_io tests/programs/mpi_io.c
//   mpirun -n 4 iotrace-perf --per-node -o 'job_{HOSTNAME}.otf2' -- ./mpi_io DIRECTORY
//
// Each rank prints its number, its process, and the bytes that it has written to and read from
// these files itself: with collective buffering another rank may write them.
#include <mpi.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 65537
#define OWN 4099

static char bytes[BLOCK];

int main(int count, char **words)
{
    int rank, size;
    char name[4096];
    MPI_File file;
    MPI_Status status;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(bytes, 'a' + rank, sizeof bytes);
    snprintf(name, sizeof name, "%s/collective", words[1]);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    for (int round = 0; round < 5; round++)
        MPI_File_write_at_all(file, ((MPI_Offset)round * size + rank) * BLOCK, bytes, BLOCK,
                              MPI_CHAR, &status);
    MPI_File_close(&file);
    snprintf(name, sizeof name, "%s/independent", words[1]);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    long written = 0, read_bytes = 0;
    for (int round = 0; round < 3 + rank; round++) {
        MPI_File_write_at(file, ((MPI_Offset)round * size + rank) * BLOCK, bytes, BLOCK, MPI_CHAR,
                          &status);
        written += BLOCK;
    }
    MPI_File_close(&file);
    snprintf(name, sizeof name, "%s/own.%d", words[1], rank);
    int own = open(name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    for (int round = 0; round < 7 + rank; round++)
        written += write(own, bytes, OWN);
    for (int round = 0; round < 2 + rank; round++)
        read_bytes += pread(own, bytes, 1009, round * 1009L);
    close(own);
    printf("%d %d %ld %ld\n", rank, getpid(), written, read_bytes);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
