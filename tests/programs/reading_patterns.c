/* reading_patterns FILE PATTERN: reads a file in one of several patterns.
 *
 * Each run of a pattern makes the same calls. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#define PAGE 4096L

static char buffer[1 << 20];
static int file;
static long pages;

static long below(long limit)
{
	static unsigned long long state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (long)((state >> 11) % (unsigned long long)limit);
}

static void take(int from, long page, long number)
{
	if (pread(from, buffer, number * PAGE, page * PAGE) != number * PAGE)
		exit(3);
}

/* Parts of at most 200 pages, one page after the other, anywhere in the file. */
static void parts(void)
{
	for (int part = 0; part < 40; part++) {
		long at = below(pages - 200), number = below(200);

		for (long page = 0; page < number; page++)
			take(file, at + page, 1);
	}
}

static void all(long bytes)
{
	while (read(file, buffer, bytes) > 0)
		;
}

/* Two open files that read the two halves by turns. */
static void halves(const char *path)
{
	int other = open(path, O_RDONLY);

	for (long page = 0; page < pages / 2; page += 2) {
		take(file, page, 2);
		take(other, pages / 2 + page, 2);
	}
}

static void wishes(void)
{
	posix_fadvise(file, 1000 * PAGE, 2000 * PAGE, POSIX_FADV_WILLNEED);
	readahead(file, 5000 * PAGE, 100 * PAGE);
	for (long page = 1000; page < 3000; page += 100)
		take(file, page, 1);
}

static void transfer(void)
{
	int null = open("/dev/null", O_WRONLY);

	for (int part = 0; part < 20; part++)
		if (lseek(file, (40 + part * 140) * PAGE, SEEK_SET) < 0 ||
		    sendfile(null, file, NULL, 90 * PAGE) != 90 * PAGE)
			exit(4);
}

int main(int argc, char **argv)
{
	const char *name = argc > 2 ? argv[2] : "";

	file = argc > 2 ? open(argv[1], O_RDONLY) : -1;
	pages = lseek(file, 0, SEEK_END) / PAGE;
	if (file < 0 || lseek(file, 0, SEEK_SET) != 0 || pages < 6000)
		return 1;
	if (!strcmp(name, "small"))
		all(PAGE);
	else if (!strcmp(name, "large"))
		all(16 * PAGE);
	else if (!strcmp(name, "random"))
		for (int number = 0; number < 2000; number++)
			take(file, below(pages), 1);
	else if (!strcmp(name, "parts"))
		parts();
	else if (!strcmp(name, "strided"))
		for (long page = 0; page < pages; page += 32)
			take(file, page, 16);
	else if (!strcmp(name, "halves"))
		halves(argv[1]);
	else if (!strcmp(name, "announced")) {
		posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL);
		parts();
	} else if (!strcmp(name, "unordered")) {
		posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
		parts();
	} else if (!strcmp(name, "wishes"))
		wishes();
	else if (!strcmp(name, "transfer"))
		transfer();
	else
		return 2;
	return 0;
}
