"""The tracepoints and the filter that iotrace-perf uses, so that others record the same: read from its own tables."""

import os
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "event"
EVENTS = Path("/sys/kernel/tracing/events")
RAW_PAIR = ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"]
READ_PAIR = ["syscalls:sys_enter_read", "syscalls:sys_exit_read"]


def call_numbers():
    """Numbers of all system calls in the table, on this machine."""
    rows = re.findall(r'row\("\w+", +(\d+), (?:Some\((\d+)\)|None)', (SOURCE / "syscall_rows.rs").read_text())
    is_x86 = os.uname().machine == "x86_64"
    numbers = [int(x86) if is_x86 else int(generic) for x86, generic in rows if is_x86 or generic]
    if not numbers:
        raise SystemExit("bench: no rows were found in src/event/syscall_rows.rs")
    return sorted(numbers)


def _runs(numbers):
    runs = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def call_filter(field):
    """A filter in the language that the kernel's filters and bpftrace share."""
    terms = [
        f"{field}=={first}" if first == last else f"({field}>={first}&&{field}<={last})"
        for first, last in _runs(call_numbers())
    ]
    return "||".join(terms)


def block_points():
    """Tracepoints of the block layer that this kernel has."""
    names = re.findall(r'\("(block_\w+)", BlockPoint::', (SOURCE / "decode.rs").read_text())
    return [f"block:{name}" for name in names if (EVENTS / "block" / name).is_dir()]


def point_id(point):
    return (EVENTS / point.replace(":", "/") / "id").read_text().strip()
