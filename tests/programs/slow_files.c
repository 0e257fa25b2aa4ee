// slow_files DIR FILE: mounts a file system at DIR in which `program` is FILE, executable by all
// users. SIGUSR1: from then on it answers nothing more, and takes every question, so that processes
// wait that cannot be killed. They go on when this process ends. Prints "ready" when it answers.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile sig_atomic_t is_silent;
static int device, file;

static void silent(int signal) { (void)signal, is_silent = 1; }

static void answer(const struct fuse_in_header *in, int error, const void *data, size_t bytes) {
    static char out[1 << 17];
    struct fuse_out_header head = {.len = sizeof head + bytes, .error = error, .unique = in->unique};
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head, data, bytes);
    if (write(device, out, head.len) < 0 && errno != ENOENT) perror("answer");
}

static struct fuse_attr attributes(unsigned long node) {
    if (node == FUSE_ROOT_ID) return (struct fuse_attr){.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2};
    struct stat found;
    fstat(file, &found);
    return (struct fuse_attr){.ino = 2, .mode = S_IFREG | 0755, .nlink = 1, .size = found.st_size,
                              .ctime = found.st_ctime, .mtime = found.st_mtime, .blksize = 4096};
}

static void serve(const struct fuse_in_header *in, const void *body) {
    switch (in->opcode) {
    case FUSE_INIT: {
        const struct fuse_init_in *its = body;
        struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .max_write = 4096};
        out.minor = its->minor < FUSE_KERNEL_MINOR_VERSION ? its->minor : FUSE_KERNEL_MINOR_VERSION;
        answer(in, 0, &out, sizeof out);
        puts("ready");
        fflush(stdout);
        return;
    }
    case FUSE_LOOKUP: {
        if (strcmp(body, "program")) return answer(in, -ENOENT, "", 0);
        struct fuse_entry_out out = {.nodeid = 2, .attr = attributes(2)};
        return answer(in, 0, &out, sizeof out);
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out out = {.attr = attributes(in->nodeid)};
        return answer(in, 0, &out, sizeof out);
    }
    case FUSE_OPEN: {
        struct fuse_open_out out = {.fh = 0};
        return answer(in, 0, &out, sizeof out);
    }
    case FUSE_READ: {
        const struct fuse_read_in *its = body;
        static char data[1 << 16];
        size_t bytes = its->size < sizeof data ? its->size : sizeof data;
        ssize_t got = pread(file, data, bytes, its->offset);
        return answer(in, got < 0 ? -errno : 0, data, got < 0 ? 0 : got);
    }
    case FUSE_STATFS: {
        struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 255}};
        return answer(in, 0, &out, sizeof out);
    }
    case FUSE_RELEASE: return answer(in, 0, "", 0);
    case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT: return;
    default: return answer(in, -ENOSYS, "", 0);
    }
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    static char in[1 << 17], options[128];
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    file = open(argv[2], O_RDONLY | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", device);
    if (device < 0 || file < 0 || mount("slow_files", argv[1], "fuse", MS_NOSUID | MS_NODEV, options)) {
        perror("mount");
        return 1;
    }
    signal(SIGUSR1, silent);
    for (;;) {
        ssize_t got = read(device, in, sizeof in);
        if (got < 0 && errno == ENODEV) return 0;
        if (got < (ssize_t)sizeof(struct fuse_in_header)) continue;
        const struct fuse_in_header *head = (const void *)in;
        if (!is_silent || head->opcode == FUSE_FLUSH || head->opcode == FUSE_RELEASE) serve(head, head + 1);
    }
}
