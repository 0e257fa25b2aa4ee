// Says when it began, on the monotonic clock: the smallest program that can be asked for it.
#include "workload.h"

int main(void) {
    printf("began: %llu\n", (unsigned long long)now_ns());
    return 0;
}
