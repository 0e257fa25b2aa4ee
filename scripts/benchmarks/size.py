"""Bytes of an operation in each tool's file."""

import points
import table
from process import Failed
from series import measure
from tools import Bpftrace, Iotrace, PerfRecord, PerfTrace, Strace, TraceCmd
from trial import folder, traced

ROUNDS_MAX = 3


def run(bench, workloads):
    tools = [
        *(Iotrace(bench.program, source) for source in ("perf", "tracefs")),
        PerfRecord(points.RAW_PAIR, "8M"),
        PerfTrace(),
        Bpftrace(),
        Strace(),
        TraceCmd(points.RAW_PAIR, 8192),
    ]
    rounds = min(ROUNDS_MAX, bench.others)
    columns = {
        name: measure(f"size of {name}", _cases(bench, tools, workloads[name]), rounds) for name in ("dd", "tar")
    }
    head = ["", *(f"`{name}`" for name in columns)]
    rows = []
    for tool in tools:
        rows.append([tool.name, *(_cell(series[tool.name]) for series in columns.values())])
    return (
        "## Bytes for each operation in the file\n\n"
        "The size of the file ÷ the system calls in it: the same ones for all, but `strace` and `perf trace`, which "
        f"record every call. Median (range) of {rounds} rounds.\n\n" + table.markdown(head, rows)
    )


def _cell(series):
    return table.spread(series, lambda it: f"{it:.1f}") if series else f"n/a: {series.failure}"


def _cases(bench, tools, workload):
    def trial(tool):
        with folder(bench.scratch) as place:
            _, done = traced(tool, workload, place, workload.count_for(tool))
            operations = tool.books(place, done).operations
            if operations == 0:
                raise Failed("nothing is in its file")
            return tool.file(place).stat().st_size / operations

    return {tool.name: (lambda tool=tool: trial(tool)) for tool in tools}
