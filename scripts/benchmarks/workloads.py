"""The traced programs, which print the time of their operations."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

# A slow tool does one of so many operations: only the time of one counts.
SLOW_DIVISOR = 20
BLOCK_BYTES = 512
FILE_BYTES = 256 << 20
FILES_PER_FOLDER = 100


def said_figure(done):
    """Time by the workload's own output."""
    found = re.search(r"ns/op: ([0-9.]+)", done.out)
    return float(found[1]) if found else None


@dataclass
class Workload:
    name: str
    title: str
    # Name of one operation.
    unit: str
    count: int
    command: Callable[[int], list]
    # False: the size is the same for all tools.
    scales: bool = True
    before: Callable[[], None] = lambda: None
    figure: Callable = said_figure

    def count_for(self, tool):
        return max(1, self.count // SLOW_DIVISOR) if tool.is_slow and self.scales else self.count


class Files:
    """The inputs, made when first asked for."""

    def __init__(self, scratch, is_quick):
        self.scratch, self.is_quick = Path(scratch), is_quick
        self.loop = None

    def scaled(self, full, quick):
        return quick if self.is_quick else full

    def cached(self, bytes_wanted=FILE_BYTES):
        """A file that was just written, so it is in the page cache, and on the disk."""
        path = self.scratch / f"cached-{bytes_wanted}"
        if not path.exists():
            piece = os.urandom(1 << 20)
            with path.open("wb") as file:
                for _ in range(-(-bytes_wanted // len(piece))):
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        return path

    def tree_files(self):
        return self.scaled(30_000, 4_000)

    def tree(self):
        """A directory with many small files."""
        path = self.scratch / "tree"
        if not path.exists():
            for number in range(self.tree_files()):
                folder = path / f"d{number // FILES_PER_FOLDER}"
                folder.mkdir(parents=True, exist_ok=True)
                text = f"file {number}\n"
                (folder / f"f{number}").write_text(text * (1 + number % 700))
        return path

    def repository(self):
        path = self.tree()
        if not (path / ".git").exists():
            git = ["git", "-C", str(path), "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
            quiet = {"check": True, "stdout": subprocess.DEVNULL}
            subprocess.run([*git, "init", "-q"], **quiet)
            subprocess.run([*git, "-c", "core.fsync=none", "add", "."], **quiet)
            subprocess.run([*git, "commit", "-q", "-m", "all"], **quiet)
            # Files written in the same second as the index are read again by each status: once is
            # enough.
            subprocess.run(["sleep", "1.1"], check=True)
            subprocess.run([*git, "update-index", "-q", "--really-refresh"], **quiet)
            subprocess.run([*git, "status"], **quiet)
        return path

    def loop_device(self):
        if self.loop is None:
            command = ["losetup", "-f", "--show", "--direct-io=on", str(self.cached())]
            self.loop = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        return self.loop

    def commits(self, count):
        path = self.scratch / f"commits-{count}.sql"
        lines = ["CREATE TABLE entry (id INTEGER PRIMARY KEY, text TEXT);"]
        lines += [f"INSERT INTO entry (text) VALUES ('entry {number}');" for number in range(count)]
        path.write_text("\n".join(lines) + "\n")
        return path

    def close(self):
        if self.loop is not None:
            subprocess.run(["losetup", "-d", self.loop], check=False)


def all_workloads(files, binaries):
    def program(name):
        return str(Path(binaries) / name)

    def timed(count, stdin, *command):
        return [program("timed"), str(count), str(stdin), *map(str, command)]

    scaled = files.scaled
    database = files.scratch / "commits.db"
    fio_says = files.scratch / "fio.json"

    def no_database():
        for ending in ("", "-journal"):
            Path(f"{database}{ending}").unlink(missing_ok=True)

    def fio(count):
        words = ["--name=bench", f"--filename={files.loop_device()}", "--thread", "--disk_util=0", "--rw=randread"]
        words += ["--bs=4k", "--direct=1", "--ioengine=io_uring", "--iodepth=64", f"--size={FILE_BYTES}"]
        words += [f"--number_ios={count}", "--output-format=json", f"--output={fio_says}"]
        return ["fio", *words]

    def fio_figure(_):
        try:
            return 1e9 / json.loads(fio_says.read_text())["jobs"][0]["read"]["iops"]
        except (OSError, ValueError, KeyError, ZeroDivisionError):
            return None

    blocks = scaled(2_000_000, 300_000)
    tree_files = files.tree_files()
    return [
        Workload(
            "reads", "Reads of one byte from /dev/zero, flat out", "read", scaled(2_000_000, 500_000),
            lambda count: [program("reads"), str(count), "1"],
        ),
        Workload(
            "read-alone", "Reads of one byte, when only `read` is traced", "read", scaled(2_000_000, 500_000),
            lambda count: [program("reads"), str(count), "1"],
        ),
        Workload(
            "ping-pong", "A byte to and fro between two processes on one CPU", "round trip",
            scaled(200_000, 50_000), lambda count: [program("ping_pong"), str(count)],
        ),
        Workload(
            "direct", "Reads of 4 KiB with O_DIRECT: each waits for the disk", "read", scaled(10_000, 2_000),
            lambda count: [program("preads"), str(count), str(files.cached()), "direct"],
        ),
        Workload(
            "fork", "fork and exec of /bin/true", "process", scaled(1_000, 200),
            lambda count: [program("fork_exec"), str(count)], scales=False,
        ),
        Workload(
            "dd", f"`dd bs=512 count={blocks}` of a cached file", "block (a read and a write)", blocks,
            lambda count: timed(
                count, "/dev/null", "dd", f"if={files.cached(blocks * BLOCK_BYTES)}", "of=/dev/null", "bs=512",
                f"count={count}", "status=none",
            ),
        ),
        Workload(
            "random", "Reads of 4 KiB anywhere in a cached file", "read", scaled(1_000_000, 200_000),
            lambda count: [program("preads"), str(count), str(files.cached()), "cached"],
        ),
        Workload(
            "tar", f"`tar` of {tree_files:,} small files", "file", tree_files,
            lambda count: timed(
                count, "/dev/null", "tar", "--exclude=.git", "-cf", files.scratch / "out.tar", "-C", files.tree(), ".",
            ),
            scales=False,
        ),
        Workload(
            "git", f"`git status` in a repository of {tree_files:,} files", "file", tree_files,
            lambda count: timed(count, "/dev/null", "git", "-C", files.repository(), "status", "--porcelain"),
            scales=False,
        ),
        Workload(
            "sqlite", "Commits of one row each with sqlite3", "commit", scaled(300, 100),
            lambda count: timed(count, files.commits(count), "sqlite3", database), scales=False, before=no_database,
        ),
        Workload(
            "fio", "fio: random reads of 4 KiB, io_uring, 64 at a time, on a loop device", "read",
            scaled(50_000, 10_000), fio, scales=False, before=lambda: fio_says.unlink(missing_ok=True),
            figure=fio_figure,
        ),
    ]
