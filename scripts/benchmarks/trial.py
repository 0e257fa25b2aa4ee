"""One run of a workload under a tool."""

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from process import Failed, run
from tools import is_installed


@contextlib.contextmanager
def folder(scratch):
    """A folder for the files of a tool, as long as they are looked at."""
    path = Path(tempfile.mkdtemp(dir=scratch, prefix="run-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def traced(tool, workload, place, count):
    """→ (ns per operation, the run)."""
    try:
        workload.before()
        command = tool.command(workload.command(count), place)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failed(f"cannot be prepared: {error}") from error
    if not is_installed(command):
        raise Failed(f"{command[0]} is not installed")
    try:
        done = run(command, tool.environment()).checked()
    finally:
        tool.after()
    figure = workload.figure(done)
    if figure is None:
        raise Failed(done.reason())
    return figure, done
