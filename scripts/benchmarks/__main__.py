"""Measures what tracing costs; see scripts/bench, which calls this."""

import argparse
import contextlib
import datetime
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import cost
import durations
import loss
import machine
import picture
import reading
import replaying
import size
import startup
from workloads import Files, all_workloads

ROOT = Path(__file__).resolve().parents[2]
# `cost` stands for all workloads.
PARTS = ["cost", "durations", "loss", "size", "reading", "startup", "replay"]
QUICK_ROUNDS = 3


@dataclass
class Bench:
    program: str
    workloads: Path
    scratch: Path
    # Of the reads, which the ratios are about; and of all others.
    rounds: int
    others: int
    quick: bool
    full: bool

    def binary(self, name):
        return str(self.workloads / name)


def arguments():
    names = [it.name for it in all_workloads(Files(Path("."), True), Path("."))]
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures what tracing costs.")
    parser.add_argument("--rounds", type=int, help="how often the reads are measured [default: 9]")
    parser.add_argument("--others", type=int, help="how often all but reads and read-alone [default: as these]")
    parser.add_argument("--only", help=f"some of: {', '.join(PARTS)}; or of the costs: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help=f"short runs, {QUICK_ROUNDS} rounds")
    parser.add_argument("--full", action="store_true", help="a log of 100 million events, too")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md and docs/benchmarks.svg")
    parser.add_argument("--scratch", type=Path, help="where files are made and removed again [default: target]")
    # scripts/bench gives these.
    parser.add_argument("--program", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--workloads", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.only = given.only.split(",") if given.only else PARTS
    for name in given.only:
        if name not in PARTS + names:
            parser.error(f"unknown name {name}; there are {', '.join(PARTS + names)}")
    if given.rounds is None:
        given.rounds = QUICK_ROUNDS if given.quick else 9
    given.others = given.rounds if given.others is None else given.others
    if given.rounds < 1 or given.others < 1:
        parser.error("--rounds, --others: at least 1")
    if not given.program or not given.workloads:
        parser.error("call scripts/bench: it builds what is measured")
    return given


@contextlib.contextmanager
def scratch(parent):
    parent.mkdir(parents=True, exist_ok=True)
    if machine.is_in_memory(parent):
        raise SystemExit(f"bench: {parent} is in memory; --scratch DIR on a disk")
    path = Path(tempfile.mkdtemp(dir=parent, prefix="bench-")).resolve()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def measure(bench, only, files):
    """→ (the text, the costs)."""
    works = {it.name: it for it in all_workloads(files, bench.workloads)}
    costs, cost_texts, texts = [], [], []
    for name, work in works.items():
        if name in only or "cost" in only:
            found, text = cost.run(bench, work)
            costs.append(found)
            cost_texts.append(text)
    if costs:
        head = "## Cost of an operation\n\n" + COST_NOTE
        texts.append("\n".join([head, cost.summary(costs), *cost_texts]))
    if "durations" in only:
        texts.append(durations.run_all(bench))
    if "loss" in only:
        texts.append(loss.run(bench))
    if "size" in only:
        texts.append(size.run(bench, works))
    if "reading" in only:
        texts.append(reading.run(bench))
    if "startup" in only:
        texts.append(startup.run(bench))
    if "replay" in only:
        texts.append(replaying.run_all(bench))
    return "\n".join(texts), costs


COST_NOTE = f"""The workloads measure themselves, so the start and the end of a tracer do not count. *extra* is the
median less that of untraced; *extra ÷ …* compares the extras. `~`: a range overlaps that of untraced, so the
number says little. *lost*: the share of records that are missing in the tool's file, by its own counters of the first
round: what is lost costs little.

`perf record`, `trace-cmd` and iotrace-perf have the same tracepoints, the same filter and rings of
{cost.RING} on each CPU; bpftrace prints the same calls' fields, without block requests; `strace` and `perf trace` print
every call. *bare drain* opens the same perf tracepoints and throws the records away.
"""


def main():
    given = arguments()
    # So that SIGTERM removes the scratch directory, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parent = given.scratch or given.workloads.parent
    with scratch(parent) as place, contextlib.closing(Files(place, given.quick)) as files:
        bench = Bench(str(given.program), given.workloads, place, given.rounds, given.others, given.quick, given.full)
        busy_before = machine.busy()
        about = machine.describe(bench.program, place)
        text, costs = measure(bench, given.only, files)
    command = "scripts/bench " + " ".join(it for it in sys.argv[1:] if it not in _paths(given))
    text = (
        f"# Benchmarks\n\n{about}\nMeasured by `{command.strip()}` on {datetime.date.today()}: "
        f"{given.rounds} interleaved rounds of the reads, {given.others} of all others, each in another order. The load of the machine was {busy_before:.2f} "
        f"before.\n\n{PICTURE if costs else ''}{text}"
    )
    print(text)
    if given.write_docs:
        (ROOT / "docs" / "benchmarks.md").write_text(text)
        if costs:
            (ROOT / "docs" / "benchmarks.svg").write_text(picture.svg(costs))


PICTURE = "![Extra time of one operation](benchmarks.svg)\n\n"


def _paths(given):
    return {"--program", str(given.program), "--workloads", str(given.workloads)}


if __name__ == "__main__":
    main()
