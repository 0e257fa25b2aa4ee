"""The tracers: the command of each, and its own counts of its recording."""

import contextlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import points
from process import Failed, run


@dataclass
class Books:
    """Counts of a tool's file, and the losses that the tool reports."""

    operations: int
    lost_records: int
    missing_records: int | None = None

    def lost_share(self):
        """Share of the records that are lost; an operation has two."""
        gone = self.lost_records + max(0, self.missing_records or 0)
        return gone / max(1, 2 * self.operations + gone)


class Tool:
    name = ""
    # Costs so much for each call that it gets a shorter run.
    is_slow = False

    def command(self, program, folder):
        """Command that traces `program` and writes to `folder`. Raises Failed if the tool cannot."""
        raise NotImplementedError

    def environment(self):
        return {}

    def file(self, folder):
        """File that the tool writes; None: it writes none."""
        return None

    def after(self):
        """Removes the remains of the tool in the kernel."""

    def books(self, folder, done):
        """Counts of the tool; None: it keeps none."""
        return None


class Untraced(Tool):
    name = "untraced"

    def command(self, program, folder):
        return program


class Iotrace(Tool):
    def __init__(self, program, source, names="", words=(), archive=False):
        self.program, self.source, self.names, self.words = program, source, names, list(words)
        self.archive = archive
        parts = [f"iotrace-perf, {source}", f"names {names}" if names else "", " ".join(words)]
        self.name = ", ".join([it for it in parts if it] + ["with archive"] * archive)

    def _known(self):
        return run([self.program, "record", "--help"]).checked().out

    def command(self, program, folder):
        known = self._known()
        words = []
        if "--source" in known:
            words += ["--source", self.source]
        elif self.source != "perf":
            # Without the option the tool records with perf.
            raise Failed("not available: this iotrace-perf has no --source")
        if "--realtime" in self.words and "--realtime" not in known:
            raise Failed("not available: this iotrace-perf has no --realtime")
        words += ["--names", self.names] if self.names else []
        words += [] if self.archive else ["--no-archive"]
        return [self.program, *words, *self.words, "-o", f"{folder}/", "--", *program]

    def file(self, folder):
        return folder / "traces.iocap"

    def books(self, folder, done):
        info = json.loads(run([self.program, "info", "--json", str(self.file(folder))]).checked().out)
        # Of system calls only: records of block requests include those of other programs.
        missing = sum(hits for point, hits in (info["missing"] or {}).items() if "sys_" in point)
        return Books(info["operations"], info["lost"], missing)


class PerfRecord(Tool):
    def __init__(self, pair, ring=None, block=True):
        self.pair, self.ring, self.block = pair, ring, block
        self.name = f"perf record -m {ring}" if ring else "perf record"

    def command(self, program, folder):
        events = []
        for point in self.pair:
            events += ["-e", point]
            if point in points.RAW_PAIR:
                events += ["--filter", points.call_filter("id")]
        for point in points.block_points() if self.block else []:
            events += ["-e", point]
        ring = ["-m", self.ring] if self.ring else []
        # No build ids: they have nothing to do with calls, and take long afterwards.
        return ["perf", "record", "-q", "-B", "-N", *ring, *events, "-o", str(self.file(folder)), "--", *program]

    def file(self, folder):
        return folder / "perf.data"

    def books(self, folder, done):
        text = run(["perf", "report", "--stats", "-i", str(self.file(folder))]).checked().out
        sections = re.split(r"^(\S.*) stats:$", text, flags=re.MULTILINE)
        samples = lost = 0
        for name, body in zip(sections[1::2], sections[2::2]):
            if "sys_" in name:
                samples += _number(r" SAMPLE events: +(\d+)", body)
                lost += _number(r"LOST_SAMPLES events: +(\d+)", body)
        return Books(samples // 2, lost)


class PerfTrace(Tool):
    name = "perf trace"
    is_slow = True

    def command(self, program, folder):
        return ["perf", "trace", "-o", str(self.file(folder)), "--", *program]

    def file(self, folder):
        return folder / "trace.txt"

    def books(self, folder, done):
        operations = lost = 0
        for line in _lines(self.file(folder)):
            operations += b" = " in line
            found = re.search(rb"LOST (\d+) events", line)
            lost += int(found[1]) if found else 0
        return Books(operations, lost)


class Bpftrace(Tool):
    """Prints the same fields of the same calls of the same processes.

    Without BEGIN, which would need uprobes; the number in a variable, because the verifier of some kernels does not
    take a filter that reads the field many times.
    """

    SCRIPT = """
tracepoint:sched:sched_process_fork /args->parent_pid == cpid || @tree[args->parent_pid]/ {{
    @tree[args->child_pid] = 1;
}}
tracepoint:sched:sched_process_exit {{ delete(@tree[tid]); }}
tracepoint:raw_syscalls:sys_enter /tid == cpid || @tree[tid]/ {{
    $id = args->id;
    if ({calls}) {{
        printf("%llu %d %d %d > %d %lx %lx %lx %lx %lx %lx\\n", nsecs, pid, tid, cpu, $id, args->args[0],
            args->args[1], args->args[2], args->args[3], args->args[4], args->args[5]);
    }}
}}
tracepoint:raw_syscalls:sys_exit /tid == cpid || @tree[tid]/ {{
    $id = args->id;
    if ({calls}) {{
        printf("%llu %d %d %d < %d %ld\\n", nsecs, pid, tid, cpu, $id, args->ret);
    }}
}}
"""

    # bpftrace is woken by every record.
    is_slow = True

    def __init__(self, ring_pages=None):
        self.ring_pages = ring_pages
        self.name = f"bpftrace, {ring_pages} pages" if ring_pages else "bpftrace"

    def command(self, program, folder):
        if any(" " in word for word in program):
            raise Failed("its -c splits the command at spaces")
        # bpftrace does not take a name that is in two directories of the path.
        program = [shutil.which(program[0]) or program[0], *program[1:]]
        script = folder / "calls.bt"
        script.write_text(self.SCRIPT.format(calls=points.call_filter("$id")))
        return ["bpftrace", "-o", str(self.file(folder)), "-c", " ".join(program), str(script)]

    def environment(self):
        return {"BPFTRACE_PERF_RB_PAGES": str(self.ring_pages)} if self.ring_pages else {}

    def file(self, folder):
        return folder / "calls.txt"

    def books(self, folder, done):
        records = lost = 0
        for line in _lines(self.file(folder)):
            records += b" > " in line or b" < " in line
            lost += _lost_events(line.decode(errors="replace"))
        return Books(records // 2, lost + _lost_events(done.out) + _lost_events(done.errors))


class Strace(Tool):
    name = "strace -f"
    is_slow = True

    def command(self, program, folder):
        return ["strace", "-f", "-o", str(self.file(folder)), *program]

    def file(self, folder):
        return folder / "strace.txt"

    def books(self, folder, done):
        def is_call(line):
            return b" = " in line and b"<unfinished ...>" not in line

        return Books(sum(is_call(line) for line in _lines(self.file(folder))), 0)


class TraceCmd(Tool):
    """trace-cmd in an instance of its own: the main buffer may be another program's."""

    INSTANCE = "bench-trace-cmd"

    def __init__(self, pair, ring_kib=None, block=True):
        self.pair, self.ring_kib, self.block = pair, ring_kib, block
        self.name = f"trace-cmd record -b {ring_kib}" if ring_kib else "trace-cmd record"

    def command(self, program, folder):
        events = []
        for point in self.pair:
            events += ["-e", point]
            if point in points.RAW_PAIR:
                events += ["-f", points.call_filter("id")]
        for point in points.block_points() if self.block else []:
            events += ["-e", point]
        ring = ["-b", str(self.ring_kib)] if self.ring_kib else []
        words = ["-B", self.INSTANCE, *ring, "-C", "mono", *events]
        return ["trace-cmd", "record", "-F", "-c", *words, "-o", str(self.file(folder)), *program]

    def after(self):
        # trace-cmd removes its instance itself, but not when it fails.
        with contextlib.suppress(FileNotFoundError):
            (points.EVENTS.parent / "instances" / self.INSTANCE).rmdir()

    def file(self, folder):
        return folder / "trace.dat"

    def books(self, folder, done):
        report = run(["trace-cmd", "report", "--stat", str(self.file(folder))]).checked()
        lost = sum(int(it) for it in re.findall(r"overrun: *(\d+)", done.out + done.errors + report.out))
        return Books(sum(" sys_" in line for line in report.out.splitlines()) // 2, lost)


class BareDrain(Tool):
    """Our own program that opens the same tracepoints and throws the records away: no tracer can cost less with perf."""

    name = "bare drain"

    def __init__(self, program, pair):
        self.program, self.pair = program, pair

    def command(self, program, folder):
        words = [f"{point}={points.point_id(point)}" for point in self.pair]
        if self.pair == points.RAW_PAIR:
            words = [f"{word},{points.call_filter('id')}" for word in words]
        return [self.program, *words, "--", *program]


def is_installed(command):
    return shutil.which(command[0]) is not None


def _number(pattern, text):
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def _lost_events(text):
    return sum(int(it) for it in re.findall(r"Lost (\d+) events", text))


def _lines(path):
    with Path(path).open("rb") as file:
        yield from file
