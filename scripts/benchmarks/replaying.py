"""Speed and exactness of a replay, beside the program itself and beside fio with the same operations."""

import json
import os
import re
import statistics
import subprocess

import table
from process import Failed, run
from series import measure
from trial import folder

# The files are in the page cache: the replay is measured, not the disk.
OPERATIONS = 1_000_000
QUICK_OPERATIONS = 50_000
PACED_OPERATIONS = 30_000
QUICK_PACED_OPERATIONS = 3_000
GAP_NS = 100_000


class Capture:
    """A recording of the program, its plan, and the same for fio; and the time of its operations when it was recorded."""

    def __init__(self, bench, place, count, gap_ns):
        self.program, self.place, self.count = bench.program, place, count
        self.command = [bench.binary("rewrites"), str(count), str(place / "file"), str(gap_ns)]
        self.plan, self.root, self.fio = place / "plan", place / "root", place / "fio"
        log = place / "log"
        run([self.program, "--source", "tracefs", "--no-archive", "-o", f"{log}/", "--", *self.command]).checked()
        capture = str(log / "traces.iocap")
        run([self.program, "replay", "plan", capture, "-o", str(self.plan)], discard=True).checked()
        run([self.program, "replay", "export", capture, "--fio", str(self.fio)], discard=True).checked()
        subprocess.run(["fio", "prepare.fio"], cwd=self.fio, stdout=subprocess.DEVNULL, check=False)

    def itself(self):
        found = re.search(r"ns/op: ([\d.]+)", run(self.command).checked().out)
        return float(found[1])

    def replayed(self, *options):
        run([self.program, "replay", "init", str(self.plan), "--root", str(self.root)]).checked()
        done = run([self.program, "replay", "run", str(self.plan), "--root", str(self.root), "--json", *options])
        report = json.loads(done.checked().out)
        if report["mismatches"]:
            raise Failed(f"{report['mismatches']} operations had another result")
        return report

    def by_fio(self, stalls):
        """Time of the job that does the most, ms."""
        job = self.fio / "replay.fio"
        text = job.read_text()
        fast = self.fio / "bench.fio"
        fast.write_text(text if stalls else text.replace("[global]", "[global]\nreplay_no_stall=1"))
        here = os.getcwd()
        os.chdir(self.fio)
        try:
            done = run(["fio", "--output-format=json", fast.name]).checked()
        finally:
            os.chdir(here)
        jobs = json.loads(done.out[done.out.index("{"):])["jobs"]
        return max(jobs, key=lambda it: it["read"]["total_ios"] + it["write"]["total_ios"])["job_runtime"]


def run_fast(bench, place):
    capture = Capture(bench, place, QUICK_OPERATIONS if bench.quick else OPERATIONS, 0)

    def ours():
        report = capture.replayed("--speed", "max")
        return report["span_ns"] / report["operations"]

    cases = {
        "the program": capture.itself,
        "iotrace-perf replay run --speed max": ours,
        "fio, replay_no_stall=1": lambda: capture.by_fio(False) * 1e6 / capture.count,
    }
    series = measure("replay, fast", cases, bench.others)
    base = series["the program"].median
    rows = [
        [name, len(one.values), table.spread(one, table.duration), table.count(1e9 / one.median), table.ratio(base / one.median)]
        if one else [name, f"n/a: {one.failure}"]
        for name, one in series.items()
    ]
    return (
        f"### As fast as it goes\n\n{table.count(capture.count)} reads and writes of 4 KiB by turns in a cached file.\n\n"
        + table.markdown(["", "rounds", "an operation", "in a second", "speed ÷ the program's"], rows)
    )


def run_paced(bench, place):
    capture = Capture(bench, place, QUICK_PACED_OPERATIONS if bench.quick else PACED_OPERATIONS, GAP_NS)
    late = []

    def ours():
        report = capture.replayed()
        late.append((report["lateness_p50_ns"], report["lateness_p99_ns"], report["lateness_max_ns"]))
        return (report["span_ns"] / report["expected_span_ns"] - 1) * 100

    wanted_ms = capture.count * GAP_NS / 1e6
    cases = {
        "iotrace-perf replay run": ours,
        "fio": lambda: (capture.by_fio(True) / wanted_ms - 1) * 100,
    }
    series = measure("replay, paced", cases, bench.others)
    rows = []
    for name, one in series.items():
        if not one:
            rows.append([name, f"n/a: {one.failure}"])
            continue
        row = [name, len(one.values), table.spread(one, lambda it: f"{it:+.3f} %")]
        if name != "fio":
            row += [table.duration(statistics.median(it)) for it in zip(*late)]
        rows.append(row)
    return (
        f"### At its times\n\n{table.count(capture.count)} of them, one each {table.duration(GAP_NS)}. *longer*: than in the capture. "
        "*late*: how long after their times operations began, medians of the rounds; fio does not say.\n\n"
        + table.markdown(["", "rounds", "longer", "late: p50", "p99", "max"], rows)
    )


def run_all(bench):
    texts = ["## Replay\n\nBeside the program itself, and beside fio with the logs of `replay export`.\n"]
    for part in (run_fast, run_paced):
        with folder(bench.scratch) as place:
            try:
                texts.append(part(bench, place))
            except Failed as failed:
                texts.append(f"n/a: {failed}\n")
    return "\n".join(texts)
