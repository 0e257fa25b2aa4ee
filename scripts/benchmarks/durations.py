"""Durations of single calls: by the program's own clock, untraced and traced, and by the log."""

import json
import os
import re
import statistics
import subprocess
import time
from dataclasses import dataclass

import table
from process import Failed, run
from series import measure
from tools import Iotrace, Untraced
from trial import folder

# Largest difference between the log and the untraced program: the larger of the two.
SHARE = 0.10
BOUND_NS = 200
BUSY_LOOPS_PER_CPU = 4
# Seconds after a recording: its kernel objects are released in the background for about one, and
# calls are slower meanwhile (a failed open 2.0 µs for 1.0).
RELEASE_S = 2


@dataclass
class Kind:
    """One kind of call, and its operations in the log."""

    name: str
    title: str
    count: int
    is_its: callable
    # Key of the tracer's own share, as `info --json` states it for such a call.
    share: str = "call_share_ns"
    # Options with which such calls are recorded.
    words: tuple = ()
    # The word of `info --json` for calls that include more than is stated.
    more: str = ""


def _call(name, failed):
    """Operations of any path: with some sources a path is not known. The few calls of the loader do not move the median."""
    return lambda it: it.get("name") == name and ((it["result"] or 0) < 0) == failed


def _kinds(bench):
    count = 2_000 if bench.quick else 10_000
    return [
        Kind("open", "open", count, _call("openat", False), "open_share_ns", more="opens"),
        Kind("missing", "failed open", count, _call("openat", True), "open_share_ns"),
        Kind("read", "pread, 1 B", count, _call("pread64", False)),
        Kind("write", "pwrite, 1 B", count, _call("pwrite64", False)),
        Kind("fsync", "fsync", count // 20, _call("fsync", False), more="disk"),
        Kind("aio", "io_submit → io_getevents, 4 KiB direct", count // 4, lambda it: it.get("kind") == "async", more="asynchronous"),
        Kind("uring", "io_uring_enter, 1 B", count, _call("io_uring_enter", False)),
        Kind("exec", "vfork and execve", count // 10, _call("vfork", False), words=("-e", "%default,vfork"), more="program"),
    ]


def _tools(bench, words):
    values = [("tracefs", it) for it in ("", "reader", "uprobe", "uprobe+fanotify", "fanotify", "links", "off")]
    values += [("perf", it) for it in ("", "off")]
    return [Iotrace(bench.program, source, names, words) for source, names in values]


@dataclass
class Times:
    """Medians and 99th percentiles, ns."""

    own: tuple
    logged: tuple = ()
    # What the report says that the tracer added, ns; `None`: not measured.
    stated: float | None = None
    # True: the report says that the call includes more than that.
    is_marked: bool = False


def _own(done):
    found = re.search(r"ns: (\d+) (\d+)", done.checked().out)
    if not found:
        raise Failed("the program printed no time")
    return int(found[1]), int(found[2])


def _quantiles(values):
    if len(values) < 2:
        raise Failed("the log has no such call")
    parts = statistics.quantiles(values, n=100)
    return statistics.median(values), parts[98]


def _trial(bench, kind, tool):
    with folder(bench.scratch) as place:
        work = [bench.binary("durations"), kind.name, str(kind.count), str(place)]
        own = _own(run(tool.command(work, place)))
        if not isinstance(tool, Untraced):
            time.sleep(RELEASE_S)
        if tool.file(place) is None:
            return Times(own)
        info = json.loads(run([bench.program, "info", "--json", str(tool.file(place))]).checked().out)
        lines = run([bench.program, "script", "--json", str(tool.file(place))]).checked().out.splitlines()
        operations = map(json.loads, lines)
        logged = _quantiles([it["duration_ns"] for it in operations if kind.is_its(it) and it.get("duration_ns")])
        is_marked = bool(kind.more) and any(kind.more in it for it in info["cost"]["more_in"])
        return Times(own, logged, _stated(info, kind), is_marked)


def _stated(info, kind):
    """Returns what the report says that the tracer adds to a call of this kind, ns; `None`: not measured."""
    share, inner = info["cost"][kind.share], info["cost"]["inner_event_share_ns"]
    if share is None or inner is None:
        return share
    # All other events of the recording, also those of probes before the call.
    inner_events = info["events"] - 2 * info["operations"]
    return share + inner * max(0, inner_events) / kind.count


def _median(times, of):
    return tuple(statistics.median(of(it)[part] for it in times) for part in (0, 1))


def _verdict(difference, true, untraced, share, is_marked):
    """The words of the last column; `untraced`: the smallest and the largest median of the untraced rounds."""
    bound = max(BOUND_NS, SHARE * true)
    if abs(difference) <= bound:
        return "yes"
    if untraced[0] - bound <= true + difference <= untraced[1] + bound:
        return "as untraced rounds"
    if share is not None and 0 < difference <= share + bound:
        return "at most stated"
    return "more, as stated" if is_marked and difference > 0 else "**no**"


def _rows(kind, found):
    without = found.pop("untraced")
    true = _median(without, lambda it: it.own)
    medians = [it.own[0] for it in without]
    rows = [[kind.title, "untraced", *map(table.duration, true)]]
    for name, times in found.items():
        if isinstance(times, str):
            rows.append([kind.title, name, f"n/a: {times}"])
            continue
        own, logged = _median(times, lambda it: it.own), _median(times, lambda it: it.logged)
        difference = logged[0] - true[0]
        stated = [it.stated for it in times if it.stated is not None]
        share = statistics.median(stated) if stated else None
        share_cell = "not measured" if share is None else table.duration(share)
        cells = map(table.duration, (*own, *logged, difference))
        is_marked = all(it.is_marked for it in times)
        verdict = _verdict(difference, true[0], (min(medians), max(medians)), share, is_marked)
        rows.append([kind.title, name, *cells, share_cell, verdict])
    return rows


def _measured(bench):
    rows = []
    for kind in _kinds(bench):
        found = {}

        def trial(tool, kind=kind, found=found):
            times = _trial(bench, kind, tool)
            found.setdefault(tool.name, []).append(times)
            return times.own[0]

        tools = [Untraced(), *_tools(bench, kind.words)]
        series = measure(kind.title, {it.name: (lambda it=it: trial(it)) for it in tools}, bench.others)
        found.update({name: one.failure for name, one in series.items() if not one})
        rows += _rows(kind, found)
    head = ["", "", "own clock, p50", "p99", "log, p50", "p99", "log less untraced, p50", "stated share"]
    head.append(f"within 10 % or {BOUND_NS} ns")
    return table.markdown(head, rows)


def run_all(bench):
    idle = _measured(bench)
    loops = [
        subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(BUSY_LOOPS_PER_CPU * (os.cpu_count() or 1))
    ]
    try:
        loaded = _measured(bench)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    return (
        "## Durations\n\n"
        "Times of single calls by the clock of the program, untraced and recorded, and their durations in the log. "
        "The log is to show what the untraced program would have seen. "
        "*as untraced rounds*: the log is within the bound of one of the untraced rounds, which differ by more. "
        "*at most stated*: the log exceeds the bound by no more than the share that the report states as the tracer's own. "
        "*more, as stated*: it exceeds it by more, and the report says so of such calls.\n\n"
        f"On an idle machine:\n\n{idle}\n"
        f"Beside {BUSY_LOOPS_PER_CPU} busy loops for each CPU:\n\n{loaded}"
    )
