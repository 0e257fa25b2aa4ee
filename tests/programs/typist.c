// Types its argument into the terminal that is its standard input, as if a user did. Exits with 6
// if it may not.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

int main(int argc, char **argv) {
    for (char *key = argv[1]; argc > 1 && *key; key++) {
        if (ioctl(0, TIOCSTI, key)) {
            printf("cannot type: %s\n", strerror(errno));
            return 6;
        }
    }
    return 0;
}
