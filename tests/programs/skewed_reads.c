/* skewed_reads FILE PAGES READS: reads single pages of a file of which none is in memory at first.
 *
 * The page of rank n is read in proportion to 1/n; ranks are spread over the file. Nothing is read
 * ahead. Prints the bytes that the kernel has read for it from the disk (/proc/self/io). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long long state = 88172645463325252ull;

static double chance(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (double)(state >> 11) / 9007199254740992.0;
}

static long long read_bytes(void)
{
	char line[128];
	long long bytes = -1;
	FILE *io = fopen("/proc/self/io", "r");

	while (io && fgets(line, sizeof line, io))
		if (!strncmp(line, "read_bytes:", 11))
			bytes = atoll(line + 11);
	if (io)
		fclose(io);
	return bytes;
}

int main(int argc, char **argv)
{
	static char page[65536];
	long pages = argc > 3 ? atol(argv[2]) : 0, reads = argc > 3 ? atol(argv[3]) : 0;
	long size = sysconf(_SC_PAGESIZE);
	double *sums = calloc(pages + 1, sizeof *sums);
	int *place = calloc(pages + 1, sizeof *place);
	int file = argc > 3 ? open(argv[1], O_RDONLY) : -1;

	if (file < 0 || pages < 1 || !sums || !place || size > (long)sizeof page)
		return 1;
	for (long n = 0; n < pages; n++) {
		sums[n + 1] = sums[n] + 1.0 / (n + 1);
		place[n] = n;
	}
	for (long n = pages - 1; n > 0; n--) {
		long other = chance() * (n + 1);
		int was = place[n];

		place[n] = place[other];
		place[other] = was;
	}
	if (posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) ||
	    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM))
		return 2;
	long long before = read_bytes();

	for (long n = 0; n < reads; n++) {
		double sum = chance() * sums[pages];
		long low = 0, high = pages - 1;

		while (low < high) {
			long middle = (low + high) / 2;

			if (sums[middle + 1] < sum)
				low = middle + 1;
			else
				high = middle;
		}
		if (pread(file, page, size, (off_t)place[low] * size) != size)
			return 3;
	}
	printf("%lld\n", read_bytes() - before);
	return 0;
}
