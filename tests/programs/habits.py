"""Programs with one costly habit each: habits.py HABIT DIRECTORY."""

import os
import sys

PAGE = os.sysconf("SC_PAGE_SIZE")


def filled(name, size):
    fd = os.open(name, os.O_CREAT | os.O_RDWR | os.O_TRUNC)
    assert os.write(fd, bytes(size)) == size
    return fd


def small_reads():
    fd = filled("a", 101 * 13)
    os.lseek(fd, 0, os.SEEK_SET)
    for _ in range(101):
        assert len(os.read(fd, 13)) == 13


def small_writes():
    fd = os.open("a", os.O_CREAT | os.O_WRONLY)
    for _ in range(103):
        os.write(fd, b"x" * 7)


def large_accesses():
    fd = os.open("a", os.O_CREAT | os.O_RDWR)
    for _ in range(103):
        os.write(fd, bytes(PAGE))
    os.lseek(fd, 0, os.SEEK_SET)
    for _ in range(103):
        os.read(fd, PAGE)


def reread():
    fd = filled("a", 1 << 20)
    for _ in range(3):
        assert len(os.pread(fd, 1 << 20, 0)) == 1 << 20


def missing_lookups():
    for number in range(1009):
        try:
            os.open(f"no-{number}", os.O_RDONLY)
        except FileNotFoundError:
            pass


def stat_storm():
    os.close(filled("a", 10))
    for _ in range(107):
        os.stat("a")


def opened_unused():
    os.close(filled("a", 10))
    for _ in range(109):
        os.close(os.open("a", os.O_RDONLY))


def written_removed():
    os.close(filled("a", (1 << 20) + 1))
    os.unlink("a")


def overwritten():
    fd = filled("a", 1 << 20)
    os.pwrite(fd, bytes(1 << 20), 0)


def overwritten_after_sync():
    fd = filled("a", 1 << 20)
    os.fsync(fd)
    os.pwrite(fd, bytes(1 << 20), 0)


def fsync_storm():
    fd = os.open("a", os.O_CREAT | os.O_WRONLY)
    for _ in range(113):
        os.write(fd, b"x" * 11)
        os.fsync(fd)


def sync_all():
    os.sync()


def sync_twice():
    fd = os.open("a", os.O_CREAT | os.O_WRONLY | os.O_DSYNC)
    for _ in range(13):
        os.write(fd, b"x")
        os.fdatasync(fd)


os.chdir(sys.argv[2])
globals()[sys.argv[1]]()
