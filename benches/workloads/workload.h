// What the workloads share: the clock, the processor they run on, and the line with their figure.
#ifndef WORKLOAD_H
#define WORKLOAD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline void check(int is_fine, const char *what) {
    if (!is_fine) {
        perror(what);
        exit(99);
    }
}

// The calling thread, and what it starts, stay on one CPU.
static inline void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    check(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

static inline void usage(const char *text) {
    fprintf(stderr, "usage: %s\n", text);
    exit(98);
}

// One write at the end: the figure costs no operation that is measured.
static inline void report(uint64_t since_ns, uint64_t operations) {
    printf("ns/op: %.2f\n", (double)(now_ns() - since_ns) / (double)operations);
    fflush(stdout);
}

#endif
