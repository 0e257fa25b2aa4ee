"""Programs with one flaw each, and their right counterparts: durability.py FLAW DIRECTORY."""

import os
import sys

BYTES = 4099
NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY


def write(fd, times=1):
    for _ in range(times):
        assert os.write(fd, b"x" * BYTES) == BYTES


def sync_directory(path="."):
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(directory)
    os.close(directory)


def syncer():
    """One file that is right: the process is one that syncs."""
    fd = os.open("right", NEW)
    write(fd)
    os.fsync(fd)
    os.close(fd)
    sync_directory()


def replace(writes_before=0, syncs=False, writes_after=0, syncs_directory=False, flags=0):
    fd = os.open("a.tmp", NEW | flags)
    write(fd, writes_before)
    if syncs:
        os.fsync(fd)
    write(fd, writes_after)
    os.close(fd)
    os.rename("a.tmp", "b")
    if syncs_directory:
        sync_directory()


def rename_unsynced():
    replace(writes_before=3)


def write_after_sync():
    replace(writes_before=1, syncs=True, writes_after=2, syncs_directory=True)


def directory_unsynced():
    replace(writes_before=1, syncs=True)


def right():
    replace(writes_before=3, syncs=True, syncs_directory=True)
    replace(writes_before=3, flags=os.O_DSYNC, syncs_directory=True)
    # Through a copied descriptor.
    fd = os.open("c.tmp", NEW)
    write(fd)
    other = os.dup(fd)
    os.close(fd)
    os.fdatasync(other)
    os.rename("c.tmp", "c")
    # By another process, through another name.
    os.link("c", "d")
    if os.fork() == 0:
        fd = os.open("d", os.O_WRONLY | os.O_APPEND)
        write(fd)
        os.fsync(fd)
        os._exit(0)
    os.wait()
    os.rename("d", "e")
    # Without a name at first.
    fd = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o600)
    write(fd)
    os.fsync(fd)
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    os.link(f"/proc/self/fd/{fd}", "f", dst_dir_fd=directory, follow_symlinks=True)
    os.fsync(directory)
    # Removed before the end.
    fd = os.open("g.tmp", NEW)
    write(fd)
    os.rename("g.tmp", "g")
    os.unlink("g")


def unnamed():
    fd = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o600)
    write(fd, 2)
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    os.link(f"/proc/self/fd/{fd}", "f", dst_dir_fd=directory, follow_symlinks=True)


def sync_failed():
    """DIRECTORY is on a device without room: the fsync fails, and the program goes on."""
    fd = os.open("a", os.O_CREAT | os.O_WRONLY)
    for _ in range(20):
        assert os.write(fd, bytes(1 << 20)) == 1 << 20
    try:
        os.fsync(fd)
        sys.exit("the fsync works")
    except OSError:
        os.close(fd)


def never_syncs():
    replace(writes_before=3)


os.chdir(sys.argv[2])
if sys.argv[1] not in ("never_syncs", "sync_failed"):
    syncer()
globals()[sys.argv[1]]()
