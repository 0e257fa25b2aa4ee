"""Losses at the highest rate: one thread flat out, and one on each CPU."""

import os
import statistics

import points
import table
from series import measure
from tools import Bpftrace, Iotrace, PerfRecord, TraceCmd
from trial import folder, traced
from workloads import Workload

LARGE_RING = "64M"
LARGE_PAGES = 16384
LARGE_KIB = 65536
# For a slow tool: shorter, but still more than its large ring holds.
SLOW_DIVISOR = 10


def _tools(bench):
    ours = [
        Iotrace(bench.program, source, words=[*ring, *realtime])
        for source in ("perf", "tracefs")
        for ring in ([], ["-m", LARGE_RING])
        for realtime in ([], ["--realtime"])
    ]
    return [
        *ours,
        *(PerfRecord(points.RAW_PAIR, ring) for ring in (None, LARGE_RING)),
        *(Bpftrace(pages) for pages in (None, LARGE_PAGES)),
        *(TraceCmd(points.RAW_PAIR, ring) for ring in (None, LARGE_KIB)),
    ]


def run(bench):
    text = "## What is lost at the highest rate\n\nReads of one byte from /dev/zero, without a pause.\n"
    count = 500_000 if bench.quick else 4_000_000
    for threads in dict.fromkeys((1, os.cpu_count())):
        text += "\n" + _flat_out(bench, count, threads)
    return text


def _flat_out(bench, count, threads):
    work = Workload(
        f"loss-{threads}", "", "read", count, lambda count: [bench.binary("reads"), str(count), str(threads)]
    )
    books = {}

    def count_for(tool):
        return count // SLOW_DIVISOR if tool.is_slow else count

    def trial(tool):
        with folder(bench.scratch) as place:
            figure, done = traced(tool, work, place, count_for(tool))
            books.setdefault(tool.name, []).append(tool.books(place, done))
            return figure

    tools = _tools(bench)
    series = measure(work.name, {tool.name: (lambda tool=tool: trial(tool)) for tool in tools}, bench.others)
    made = {tool.name: count_for(tool) * threads for tool in tools}
    head = ["", "rounds", "one read", "reads made", "found", "said to be lost (records)", "missing (records)"]
    rows = []
    for name, one in series.items():
        if not one:
            rows.append([name, f"n/a: {one.failure}"])
            continue
        found = [it.operations for it in books[name]]
        missing = [it.missing_records for it in books[name] if it.missing_records is not None]
        label = name + (f" ({one.failure})" if one.failure else "")
        rows.append([
            label,
            len(one.values),
            table.spread(one, table.duration),
            table.count(made[name]),
            f"{100 * statistics.median(found) / made[name]:.3f} %",
            _spread([it.lost_records for it in books[name]]),
            _spread(missing) if missing else "–",
        ])
    who = "One thread" if threads == 1 else f"{threads} threads, one on each CPU"
    note = "Reads of the program's start and end count too, so a complete log has a little more than 100 %."
    return f"### {who}\n\n{note}\n\n{table.markdown(head, rows)}"


def _spread(numbers):
    if min(numbers) == max(numbers):
        return table.count(numbers[0])
    shown = (statistics.median(numbers), min(numbers), max(numbers))
    return "{} ({} – {})".format(*map(table.count, shown))
