"""Programs with one costly habit each: habits.py HABIT DIRECTORY."""

import mmap
import os
import sys
import threading

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


def direct(times, size, vectored=False):
    """Direct reads of this size; memory of a mapping is aligned."""
    os.close(filled("a", 128 * PAGE))
    fd = os.open("a", os.O_RDONLY | os.O_DIRECT)
    memory = memoryview(mmap.mmap(-1, PAGE))[:size]
    with open(fd, "rb", buffering=0) as file:
        for number in range(times):
            if vectored:
                assert os.preadv(fd, [memory], number * size) == size
            else:
                assert file.readinto(memory) == size


def direct_unaligned():
    direct(101, 512)


def direct_vectored():
    direct(101, 512, vectored=True)


def direct_aligned():
    direct(101, PAGE)


def direct_refused():
    os.close(filled("a", PAGE))
    fd = os.open("a", os.O_RDONLY | os.O_DIRECT)
    memory = memoryview(mmap.mmap(-1, PAGE))[:13]
    for _ in range(11):
        try:
            os.preadv(fd, [memory], 0)
            sys.exit("the read works")
        except OSError:
            pass


def read_whole(drops):
    """Reads a file of 521 pages three times, and drops it from the page cache before."""
    fd = filled("a", 521 * PAGE)
    os.fsync(fd)
    for number in range(3):
        if number < drops:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        assert len(os.pread(fd, 521 * PAGE, 0)) == 521 * PAGE


def cache_thrash():
    read_whole(3)


def cache_kept():
    read_whole(1)


def metadata_heavy():
    os.close(filled("a", 11))
    for _ in range(503):
        os.close(os.open("a", os.O_RDONLY))


def store(syncs):
    fd = filled("a", 3 * PAGE)
    with mmap.mmap(fd, 3 * PAGE) as memory:
        memory[PAGE] = 7
        if syncs:
            memory.flush()
    os.close(fd)


def mmap_unsynced():
    store(False)


def mmap_synced():
    store(True)


def evicted(name, size):
    fd = filled(name, size)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return fd


def read_in_disorder(fd):
    for number in range(131):
        os.pread(fd, PAGE, number * number * number % 131 * 7 * PAGE)


def useless_readahead():
    fd = evicted("a", 1024 * PAGE)
    # The kernel reads no more than a window for each call.
    for first in range(0, 1024, 16):
        os.posix_fadvise(fd, first * PAGE, 16 * PAGE, os.POSIX_FADV_WILLNEED)
    read_in_disorder(fd)


def no_readahead():
    fd = evicted("a", 1024 * PAGE)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    read_in_disorder(fd)


def write_at_once(names):
    # Each write waits for the disk, so that writes overlap on one processor, too; there are enough
    # of them for the time that a rule asks for, on a disk that takes 0.2 ms for a write.
    fds = [os.open(name, os.O_CREAT | os.O_WRONLY | os.O_DSYNC) for name in names]
    block = bytes(16 * PAGE)

    def write(number):
        for turn in range(1009):
            place = turn % 307
            os.pwrite(fds[number], block, (place * 2 + number) * len(block))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


def shared_file():
    write_at_once(["a", "a"])


def own_files():
    write_at_once(["a", "b"])


def journal_commits():
    # Attributes alone are changed: a sync has no data to write.
    fd = os.open("a", os.O_CREAT | os.O_WRONLY)
    for number in range(401):
        os.fchmod(fd, 0o600 + number % 2)
        os.fsync(fd)


def no_commits():
    fd = filled("a", 401 * PAGE)
    os.fsync(fd)
    for number in range(401):
        os.pwrite(fd, b"x" * PAGE, number * PAGE)
        os.fdatasync(fd)


def writes_much():
    fd = os.open("a", os.O_CREAT | os.O_WRONLY)
    for _ in range(200):
        os.write(fd, bytes(1 << 20))


os.chdir(sys.argv[2])
globals()[sys.argv[1]]()
