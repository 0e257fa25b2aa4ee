"""Cost of an operation under each tracer, beside its cost without one."""

from dataclasses import dataclass

import points
import table
from series import measure
from tools import BareDrain, Bpftrace, Iotrace, PerfRecord, PerfTrace, Strace, TraceCmd, Untraced
from trial import folder, traced
from workloads import SLOW_DIVISOR

UNTRACED = "untraced"
# As large as ours.
RING = "8M"
RING_KIB = 8192
PEER = f"perf record -m {RING}"
BARE = "bare drain"


@dataclass
class Cost:
    workload: object
    series: dict
    # Share of the records that were lost, by the tools' own books of the first round.
    lost: dict

    def extra(self, name):
        """Over untraced, of the medians; None: not measured."""
        plain, traced_one = self.series.get(UNTRACED), self.series.get(name)
        return traced_one.median - plain.median if plain and traced_one else None


def tools_for(bench, workload):
    if workload.name == "read-alone":
        return [
            Untraced(),
            *(Iotrace(bench.program, source, words=["-e", "read"]) for source in ("perf", "tracefs")),
            PerfRecord(points.READ_PAIR, RING, block=False),
            TraceCmd(points.READ_PAIR, RING_KIB, block=False),
            BareDrain(bench.binary("bare_drain"), points.READ_PAIR),
        ]
    tools = [
        Untraced(),
        *(
            Iotrace(bench.program, source, names)
            for source in ("perf", "tracefs")
            for names in ("", "off")
        ),
        PerfRecord(points.RAW_PAIR, RING),
        PerfTrace(),
        Bpftrace(),
        Strace(),
        TraceCmd(points.RAW_PAIR, RING_KIB),
    ]
    if workload.name == "reads":
        tools.append(BareDrain(bench.binary("bare_drain"), points.RAW_PAIR))
    return tools


def run(bench, workload):
    lost = {}

    def trial(tool):
        with folder(bench.scratch) as place:
            figure, done = traced(tool, workload, place, workload.count_for(tool))
            if tool.name not in lost:
                books = tool.books(place, done)
                lost[tool.name] = books.lost_share() if books else None
            return figure

    tools = tools_for(bench, workload)
    cases = {tool.name: (lambda tool=tool: trial(tool)) for tool in tools}
    slow = {tool.name for tool in tools if tool.is_slow}
    rounds = bench.rounds if workload.name in ("reads", "read-alone") else bench.others
    cost = Cost(workload, measure(workload.name, cases, rounds), lost)
    return cost, _text(cost, slow)


def _text(cost, slow):
    work = cost.workload
    title = f"### {work.title}\n\nTime of one {work.unit}; {table.count(work.count)} of them in each run"
    if work.scales and slow & set(cost.series):
        names = ", ".join(sorted(slow & set(cost.series)))
        title += f", {table.count(max(1, work.count // SLOW_DIVISOR))} under {names}"
    references = [name for name in (PEER, BARE) if name in cost.series]
    head = ["", "rounds", "min", "median", "max", "extra", *(f"extra ÷ {it}" for it in references), "lost"]
    rows = [_row(cost, name, series, references) for name, series in cost.series.items()]
    return f"{title}.\n\n{table.markdown(head, rows)}"


def _row(cost, name, series, references):
    if not series:
        return [name, f"n/a: {series.failure}"]
    figures = [table.duration(it) for it in (series.low, series.median, series.high)]
    row = [name + (f" ({series.failure})" if series.failure else ""), len(series.values), *figures]
    if name == UNTRACED or cost.extra(name) is None:
        return row
    row.append(table.duration(cost.extra(name)))
    row += [relation(cost, name, other) for other in references]
    lost = cost.lost.get(name)
    row.append("–" if lost is None else table.share(lost))
    return row


def relation(cost, name, other):
    """Extra ÷ the other's extra. `~`: a range overlaps that of untraced, so the number means little."""
    extra, base = cost.extra(name), cost.extra(other)
    if extra is None or base is None or base <= 0:
        return "–"
    plain = cost.series[UNTRACED]
    is_vague = any(cost.series[it].overlaps(plain) for it in (name, other))
    return ("~" if is_vague else "") + table.ratio(extra / base)


def summary(costs):
    """One row for each workload: ours against the others."""
    names = []
    for cost in costs:
        names += [it for it in cost.series if it.startswith("iotrace-perf") and it not in names and "-e" not in it]
    rows = []
    for cost in costs:
        if cost.workload.name != "read-alone":
            rows.append([cost.workload.title, *(_against_peer(cost, name) for name in names)])
    if not rows:
        return ""
    return f"Extra time ÷ that of `{PEER}` with the same events:\n\n" + table.markdown(["", *names], rows)


def _against_peer(cost, name):
    return "n/a" if cost.extra(name) is None else relation(cost, name, PEER)
