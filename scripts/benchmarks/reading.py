"""Speed and memory of the readers of a log on one core and on all, beside perf with its own file."""

import json
import os
import statistics

import points
import table
from process import Failed, run as start
from series import measure
from tools import Iotrace, PerfRecord
from trial import folder, traced
from workloads import Workload

# A pass over 100 M events takes a minute.
ROUNDS_OF_LONG = 3
LONG_EVENTS = 100_000_000
# Ring of `perf record`: lost records cannot be shown.
RING = "8M"
# `advise` is left out: its rules are part of `summary`.
REPORTS = ["summary", "disk", "neighbours", "cache", "what-if", "files", "slow", "latency", "pattern"]
FORMS = ["csv", "iotracer", "ioreplay"]
VERBS = {
    "info": ["info", "--json"],
    **{verb: [verb] for verb in REPORTS},
    "script": ["script"],
    "script --json": ["script", "--json"],
    **{f"script --format {form}": ["script", "--format", form] for form in FORMS},
    "summary --by cgroup": ["summary", "--by", "cgroup"],
    "replay plan": ["replay", "plan"],
}
# Verbs that write a file, by its name.
WRITERS = {
    "report -o .html": (["report"], "page.html"),
    "convert -o .otf2": (["convert"], "trace.otf2"),
    "convert -o .pftrace": (["convert"], "trace.pftrace"),
    "convert -o .parquet": (["convert"], "tables.parquet"),
    "convert --capsule": (["convert", "--capsule"], "capsule.iocap"),
}
PEER = "perf script"
# The processors of each row: a number of them, and the words that keep a command to them.
PLACES = {1: ["taskset", "-c", "0"], len(os.sched_getaffinity(0)): []}


def run(bench):
    sizes = [1_000_000] if bench.quick else [1_000_000, 10_000_000]
    sizes += [LONG_EVENTS] if bench.full else []
    head = ["events", "", "CPUs", "rounds", "time", "operations/s", "memory (max RSS)"]
    rows = []
    for events in sizes:
        rows += _rows(bench, events)
    return (
        "## From the log to operations, text, OTF2\n\n"
        "A log of one-byte reads, two events to an operation, read on one core and on all of this machine; "
        "the text goes to /dev/null. `perf script` shows the records that `perf record` has kept of the same calls.\n\n"
        + table.markdown(head, rows)
    )


def _rows(bench, events):
    work = Workload("", "", "read", events // 2, lambda count: [bench.binary("reads"), str(count), "1"])
    with folder(bench.scratch) as place:
        label = table.count(events)
        memory = {}
        try:
            cases, operations = _ours(bench, work, place, memory)
        except Failed as failed:
            return [[label, f"n/a: {failed}"]]
        # A log of 100 M events has 20 GB.
        if events < LONG_EVENTS:
            peer, its = _peer(bench, work, place, memory)
            cases[PEER, 1] = peer
            operations[PEER] = its
        rounds = min(bench.others, ROUNDS_OF_LONG) if events >= LONG_EVENTS else bench.others
        series = measure(f"reading {label}", cases, rounds)
    return [_row(label, case, one, operations[case[0]], memory) for case, one in series.items()]


def _ours(bench, work, place, memory):
    """Readers of our log → figures, and the number of its operations."""
    tool = Iotrace(bench.program, "perf")
    traced(tool, work, place, work.count)
    log = tool.file(place)
    info = json.loads(start([bench.program, "info", "--json", str(log)]).checked().out)
    verbs = [*VERBS, *WRITERS]
    cases = {
        (verb, cpus): (lambda verb=verb, cpus=cpus: _read(bench, verb, cpus, log, memory))
        for verb in verbs
        for cpus in PLACES
    }
    return cases, dict.fromkeys(verbs, info["operations"])


def _peer(bench, work, place, memory):
    """perf's own reader of the same calls."""
    tool = PerfRecord(points.READ_PAIR, RING, block=False)
    try:
        done = traced(tool, work, place, work.count)[1]
        operations = tool.books(place, done).operations
    except Failed as failed:
        reason = str(failed)

        def fails():
            raise Failed(reason)

        return fails, 0
    words = ["perf", "script", "-i", str(tool.file(place))]
    return (lambda: _timed((PEER, 1), words, memory)), operations


def _read(bench, verb, cpus, log, memory):
    with folder(bench.scratch) as place:
        words, name = WRITERS.get(verb) or (VERBS[verb], None)
        output = ["-o", f"{place}/{name}"] if name else []
        return _timed((verb, cpus), [bench.program, *words, *output, str(log)], memory)


def _timed(case, words, memory):
    done = start([*PLACES[case[1]], *words], discard=True).checked()
    memory.setdefault(case, []).append(done.max_rss_kib)
    return done.wall_ns


def _row(label, case, series, operations, memory):
    verb, cpus = case
    if not series:
        return [label, verb, cpus, f"n/a: {series.failure}"]
    rate = operations / (series.median / 1e9)
    resident = statistics.median(memory[case]) / 1024
    spread = table.spread(series, table.duration)
    return [label, verb, cpus, len(series.values), spread, f"{rate / 1e6:.2f} M", f"{resident:.1f} MiB"]
