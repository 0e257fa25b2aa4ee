"""What becomes of a log: how fast, and in how much memory, on one core."""

import json
import statistics

import table
from process import Failed, run as start
from series import measure
from tools import Iotrace
from trial import folder, traced
from workloads import Workload

# A pass over 100 M events takes a minute.
ROUNDS_OF_LONG = 3
LONG_EVENTS = 100_000_000
VERBS = {
    "info": ["info", "--json"],
    "script": ["script"],
    "script --json": ["script", "--json"],
    "convert": ["convert"],
}


def run(bench):
    sizes = [1_000_000] if bench.quick else [1_000_000, 10_000_000]
    sizes += [LONG_EVENTS] if bench.full else []
    head = ["events", "", "rounds", "time", "operations/s", "memory (max RSS)"]
    rows = []
    for events in sizes:
        rows += _rows(bench, events)
    return (
        "## From the log to operations, text, OTF2\n\n"
        "A log of one-byte reads, two events to an operation, read on one core; the text goes to /dev/null.\n\n"
        + table.markdown(head, rows)
    )


def _rows(bench, events):
    work = Workload("", "", "read", events // 2, lambda count: [bench.binary("reads"), str(count), "1"])
    with folder(bench.scratch) as place:
        label = table.count(events)
        tool = Iotrace(bench.program, "perf")
        try:
            traced(tool, work, place, work.count)
            log = tool.file(place)
            info = json.loads(start([bench.program, "info", "--json", str(log)]).checked().out)
        except Failed as failed:
            return [[label, f"n/a: {failed}"]]
        memory = {}
        cases = {verb: (lambda verb=verb: _read(bench, verb, log, memory)) for verb in VERBS}
        rounds = min(bench.others, ROUNDS_OF_LONG) if events >= LONG_EVENTS else bench.others
        series = measure(f"reading {label}", cases, rounds)
    return [_row(label, verb, one, info["operations"], memory) for verb, one in series.items()]


def _read(bench, verb, log, memory):
    with folder(bench.scratch) as place:
        words = [*VERBS[verb], str(log)]
        if verb == "convert":
            words += ["-o", f"{place}/out/"]
        done = start(["taskset", "-c", "0", bench.program, *words], discard=True).checked()
        memory.setdefault(verb, []).append(done.max_rss_kib)
        return done.wall_ns


def _row(label, verb, series, operations, memory):
    if not series:
        return [label, verb, f"n/a: {series.failure}"]
    rate = operations / (series.median / 1e9)
    resident = statistics.median(memory[verb]) / 1024
    spread = table.spread(series, table.duration)
    return [label, verb, len(series.values), spread, f"{rate / 1e6:.2f} M", f"{resident:.1f} MiB"]
