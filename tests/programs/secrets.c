/* A program whose names are secrets: secrets DIRECTORY ARGUMENT. Each is the name of an animal; the
 * functions of a system call chain, a buffer on the stack and the data of a file have one, too. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The shell lives long enough for a reader of its command line. */
#define COMMANDS "cat axolotl/quokka.numbers > jerboa; sleep 0.3; : kinkajou"

static int failed;

static void check(const char *what, long result)
{
    if (result < 0) {
        perror(what);
        failed = 1;
    }
}

/* The buffer is on the stack while the call runs. */
__attribute__((noinline)) static void okapi(const char *name)
{
    char buffer[256];
    memset(buffer, 0, sizeof buffer);
    strcpy(buffer, "pangolin pangolin pangolin");
    int file = open(name, O_CREAT | O_RDWR, 0600);
    check("open", file);
    for (int times = 0; times < 23; times++) {
        check("write", write(file, buffer, sizeof buffer));
    }
    check("fsetxattr", fsetxattr(file, "user.dugong", "zorilla", 7, 0));
    close(file);
}

int main(int count, char **arguments)
{
    if (count < 3) {
        return 2;
    }
    check("chdir", chdir(arguments[1]));
    check("prctl", prctl(PR_SET_NAME, "wombat", 0, 0, 0));
    check("mkdir", mkdir("axolotl", 0700));
    okapi("axolotl/numbat.txt");
    check("rename", rename("axolotl/numbat.txt", "axolotl/quokka.numbers"));
    check("symlink", symlink("tapir/serval", "axolotl/fossa"));
    char target[64];
    check("readlink", readlink("axolotl/fossa", target, sizeof target));
    int missing = open("axolotl/echidna/bandicoot", O_RDONLY);
    (void)missing;
    check("memfd_create", memfd_create("caracal", 0));
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "axolotl/gerenuk"};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    check("bind", bind(listener, (struct sockaddr *)&address, sizeof address));
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "binturong", "-c", COMMANDS, NULL);
        _exit(1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return failed || status != 0;
}
