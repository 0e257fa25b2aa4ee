"""The measured versions, and the machine."""

import os
import re
import subprocess
from pathlib import Path

VERSIONS = [
    ["perf", "--version"], ["strace", "-V"], ["bpftrace", "--version"], ["trace-cmd", "--version"],
    ["fio", "--version"], ["sqlite3", "--version"], ["git", "--version"], ["tar", "--version"], ["dd", "--version"],
]
FILE_SYSTEMS_IN_MEMORY = ("tmpfs", "ramfs")


def _first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return f"{command[0]}: not installed"
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return said[0].strip() if said else f"{command[0]}: says nothing"


def _field(path, name):
    found = re.search(rf"^{name}\s*:\s*(.*)$", Path(path).read_text(), flags=re.MULTILINE)
    return found[1] if found else "unknown"


def file_system(path):
    """Type of the file system that holds the path."""
    mounts = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        mounts[left.split()[4]] = right.split()[0]
    place = Path(path).resolve()
    for folder in (place, *place.parents):
        if str(folder) in mounts:
            return mounts[str(folder)]
    return "unknown"


def describe(program, scratch):
    kernel = os.uname()
    memory_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    versions = []
    for command in VERSIONS:
        said = _first_line(command)
        # sqlite3 prints the number alone.
        versions.append(said if command[0].split("-")[0] in said else f"{command[0]} {said.split()[0]}")
    lines = [
        f"{kernel.sysname} {kernel.release}, {kernel.machine}, {os.cpu_count()} × "
        f"{_field('/proc/cpuinfo', 'model name')}, {memory_gib:.0f} GiB, "
        f"{'a virtual machine' if _is_virtual() else 'no virtual machine that says so'}; "
        f"files on {file_system(scratch)}.",
        f"{_first_line([program, '--version'])}; {'; '.join(versions)}.",
    ]
    return "\n\n".join(lines) + "\n"


def _is_virtual():
    return " hypervisor " in f" {_field('/proc/cpuinfo', 'flags')} "


def is_in_memory(path):
    return file_system(path) in FILE_SYSTEMS_IN_MEMORY


def busy():
    """Load of the machine by other programs, which makes every figure worse."""
    return os.getloadavg()[0]
