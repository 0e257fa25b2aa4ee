"""Time of a tracer before the program runs and after it has ended."""

import re
import statistics

import points
import table
from process import Failed
from series import measure
from tools import Bpftrace, Iotrace, PerfRecord, PerfTrace, Strace, TraceCmd, Untraced
from trial import folder, traced
from workloads import Workload


def _tools(bench):
    ours = [Iotrace(bench.program, source, names) for source in ("perf", "tracefs") for names in ("", "off")]
    archive = [Iotrace(bench.program, source, archive=True) for source in ("perf", "tracefs")]
    return [
        Untraced(), *ours, *archive, PerfRecord(points.RAW_PAIR), PerfTrace(), Bpftrace(), Strace(),
        TraceCmd(points.RAW_PAIR),
    ]


def _began(done):
    found = re.search(r"began: (\d+)", done.out)
    return int(found[1]) if found else None


def run(bench):
    work = Workload("", "", "", 1, lambda _: [bench.binary("stamp")], figure=_began)
    before, after = {}, {}

    def trial(tool):
        with folder(bench.scratch) as place:
            began_ns, done = traced(tool, work, place, 1)
            if not done.began_ns <= began_ns <= done.ended_ns:
                raise Failed("the program's clock is not ours")
            before.setdefault(tool.name, []).append(began_ns - done.began_ns)
            after.setdefault(tool.name, []).append(done.ended_ns - began_ns)
            return done.wall_ns

    series = measure("startup", {tool.name: (lambda tool=tool: trial(tool)) for tool in _tools(bench)}, bench.others)
    rows = []
    for name, one in series.items():
        if not one:
            rows.append([name, f"n/a: {one.failure}"])
            continue
        parts = [table.duration(statistics.median(it[name])) for it in (before, after)]
        rows.append([name, len(one.values), table.spread(one, table.duration), *parts])
    return (
        "## Start and end\n\n"
        "A program that says what time it is and ends. All three are wall times; the last two are medians.\n\n"
        + table.markdown(["", "rounds", "all of it", "until the program began", "from there to the end"], rows)
    )
