"""Runs a program to its end: its output, its time and its memory."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

# Far above what any run takes that is not stuck.
TIMEOUT_S = 600
REASON_CHARS = 200


class Failed(Exception):
    """A run without a figure, and why."""


@dataclass
class Run:
    began_ns: int
    ended_ns: int
    status: int
    out: str
    errors: str
    max_rss_kib: int

    @property
    def wall_ns(self):
        return self.ended_ns - self.began_ns

    def reason(self):
        """The last message of the program, for people."""
        lines = [line.strip() for line in self.errors.splitlines() if line.strip()]
        named = [line for line in lines if "error" in line.lower()]
        said = named[-1] if named else "; ".join(lines[-2:])
        if len(said) > REASON_CHARS:
            said = said[:REASON_CHARS] + "…"
        return said or f"ended with status {self.status} and said nothing"

    def checked(self):
        if self.status != 0:
            raise Failed(self.reason())
        return self


def run(command, environment=None, discard=False):
    """Runs a command; with `discard` its standard output is not kept."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        began_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if discard else out,
                stderr=errors,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from error
        status, usage, ended_ns = _wait(child)
        said = []
        for file in (out, errors):
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
        return Run(began_ns, ended_ns, status, *said, usage.ru_maxrss)


def _wait(child):
    """Waits for the end of a child, with its resources; kills its session after the limit, or if we are to end."""
    late = threading.Event()

    def stop():
        late.set()
        _kill(child.pid)

    timer = threading.Timer(TIMEOUT_S, stop)
    timer.start()
    try:
        _, status, usage = os.wait4(child.pid, 0)
        ended_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        child.returncode = os.waitstatus_to_exitcode(status)
    except BaseException:
        _kill(child.pid)
        child.wait()
        raise
    finally:
        timer.cancel()
    if late.is_set():
        raise Failed(f"not done after {TIMEOUT_S} s")
    return child.returncode, usage, ended_ns


def _kill(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
