// Writes through functions without frame pointers, each in another way. Each makes another prime
// number of writes.
//
//   frameless FILE
#pragma GCC optimize("omit-frame-pointer,no-optimize-sibling-calls,no-inline")
#define _GNU_SOURCE
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fd, bad;
static char block[512];

#define FUNCTION __attribute__((noinline)) static
#define STAYS __asm__ volatile("" ::: "memory")

FUNCTION void put(int count)
{
    for (int done = 0; done < count; done++)
        bad += write(fd, block, sizeof block) != sizeof block;
    STAYS;
}

// The stack pointer gives the place of its frame.
FUNCTION void plain(volatile int *room)
{
    volatile char more[333];
    more[*room] = 1;
    put(7);
    STAYS;
}

// The size of the frame is known only at run time: another register gives its place.
FUNCTION void varies(volatile int *room)
{
    volatile char *more = alloca(*room + 100);
    more[*room] = 1;
    put(11);
    STAYS;
}

// The place of the frame depends on the address: an expression gives it.
FUNCTION void aligned(volatile int *room)
{
    volatile char more[256] __attribute__((aligned(256)));
    volatile char *varies = alloca(*room + 100);
    more[*room] = varies[*room] = 1;
    put(13);
    STAYS;
}

static int calls;

FUNCTION int compare(const void *one, const void *other)
{
    if (calls++ == 0)
        put(17);
    return *(const int *)one - *(const int *)other;
}

// Called by a function of the C library.
FUNCTION void sorts(void)
{
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
    STAYS;
}

FUNCTION void handler(int signal)
{
    put(signal == SIGUSR1 ? 19 : 29);
    STAYS;
}

// Called by the kernel.
FUNCTION void signals(void)
{
    raise(SIGUSR1);
    STAYS;
}

FUNCTION void *starts(void *nothing)
{
    put(23);
    STAYS;
    return nothing;
}

// Runs on another stack: the stack below the handler was not copied.
FUNCTION void elsewhere(void)
{
    stack_t other = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&other, NULL);
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    STAYS;
}

#ifdef __x86_64__
// The function has no unwind rules, but keeps a frame pointer.
void untold(void (*function)(void));
__asm__(".text\nuntold: push %rbp\n mov %rsp, %rbp\n call *%rdi\n pop %rbp\n ret\n");

FUNCTION void put_31(void)
{
    put(31);
    STAYS;
}
#endif

int main(int count, char **words)
{
    volatile int room = 50;
    pthread_t thread;
    fd = count > 1 ? open(words[1], O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (fd < 0)
        return 2;
    signal(SIGUSR1, handler);
    plain(&room);
    varies(&room);
    aligned(&room);
    sorts();
    signals();
    if (pthread_create(&thread, NULL, starts, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 3;
    elsewhere();
#ifdef __x86_64__
    untold(put_31);
#endif
    STAYS;
    return bad;
}
