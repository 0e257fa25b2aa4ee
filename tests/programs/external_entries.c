// Finds a file that no call on files has made (a socket that is bound), gives it other names and
// removes it; opens and asks for what another user may not. In the place of the first argument,
// where "secret" is a file of mode 0600.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void need(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct stat st;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    need(argc == 2 && chdir(argv[1]) == 0, "chdir");
    strcpy(at.sun_path, "socket");
    // Both are done again.
    need(access("socket", F_OK) == -1 && errno == ENOENT, "access");
    need(mkdir("directory", 0777) == 0, "mkdir");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    need(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0, "bind");
    // Five calls are not replayed: the replay has no socket there.
    need(chmod("socket", 0700) == 0, "chmod");
    need(mkdir("socket", 0777) == -1 && errno == EEXIST, "mkdir");
    need(rename("socket", "directory/moved") == 0, "rename");
    need(access("directory/moved", F_OK) == 0, "access");
    need(unlink("directory/moved") == 0, "unlink");
    // Later files with the names of the socket are the program's.
    int file = open("socket", O_WRONLY | O_CREAT, 0666);
    need(file >= 0 && write(file, "abc", 3) == 3 && close(file) == 0, "open");
    need(rename("socket", "directory/moved") == 0, "rename");
    need(access("directory/moved", F_OK) == 0, "access");
    // Nor are these two, which another user may not.
    need(setegid(65534) == 0 && seteuid(65534) == 0, "seteuid");
    need(open("secret", O_RDONLY) == -1 && errno == EACCES, "open");
    need(chmod("secret", 0666) == -1 && errno == EPERM, "chmod");
    need(stat("secret", &st) == 0 && st.st_size == 5, "stat");
    return 0;
}
