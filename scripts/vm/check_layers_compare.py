#!/usr/bin/env python3
"""Counts of the layers that were seen at work, against the true counts.

    check_layers_compare.py BINARY LOGS_OF_A_KERNEL...

Prints for each kernel, file system and source the reports and their sources, and the
defects: counts that differ, times of layers that do not add up to that of
their calls, or calls whose layer is missing. The exit status is 1 then.
"""

import json
import pathlib
import subprocess
import sys

READS, WRITES, SYNCS, OPENS = 13 + 3, 11 + 7, 5, 2
VFS = {"vfs_read": READS, "vfs_write": WRITES, "vfs_open": OPENS, "fsync": SYNCS}
# Which of them is a function of its own, and which a part of the other, is the compiler's choice.
NAMES = {"fsync": ("do_fsync", "vfs_fsync_range")}
FS = {
    "ext4": {"ext4_file_read_iter": READS, "ext4_file_write_iter": WRITES, "ext4_file_open": OPENS,
             "ext4_sync_file": SYNCS},
    "xfs": {"xfs_file_read_iter": READS, "xfs_file_write_iter": WRITES, "xfs_file_open": OPENS,
            "xfs_file_fsync": SYNCS},
    "btrfs": {"btrfs_file_read_iter": READS, "btrfs_file_write_iter": WRITES, "btrfs_file_open": OPENS,
              "btrfs_sync_file": SYNCS},
}
# Layers without probes: those with tracepoints at both ends.
STAND_INS = {"ext4": {"ext4_sync_file": SYNCS, "ext4_da_write": 11}, "xfs": {}, "btrfs": {}}


def compare(binary, log):
    report = subprocess.run([binary, "latency", "--json", log], capture_output=True, check=True, text=True)
    report = json.loads(report.stdout)
    kind = log.stem.split("-")[0]
    header = json.loads(subprocess.run([binary, "info", "--json", log], capture_output=True, check=True,
                                       text=True).stdout)
    by = header["layers"]
    expected = {**VFS, **FS[kind]} if by == "kprobe" else STAND_INS[kind]
    found = {it["operation"]: it["count"] for it in report["layers"] if it["layer"] in ("vfs", "fs")}
    wrong = []
    for name, count in expected.items():
        seen = {found[it] for it in NAMES.get(name, (name,)) if it in found}
        if seen != {count}:
            wrong.append(f"{name} {seen or 0} of {count}")
    for it in report["split"]:
        parts = [it[key] or 0 for key in it if key.endswith("_ns") and key != "time_ns"]
        if sum(parts) != it["time_ns"]:
            wrong.append(f"{it['operation']}: {sum(parts)} of {it['time_ns']} ns")
        if by == "kprobe" and it["operation"] in ("pread64", "pwrite64", "fsync") and not it["fs_ns"]:
            wrong.append(f"{it['operation']}: no time in the file system")
    listed = ", ".join(f"{name} {count}" for name, count in sorted(found.items()))
    return by, listed, wrong


def main():
    binary, *folders = sys.argv[1:]
    failed = False
    for folder in map(pathlib.Path, folders):
        for log in sorted(folder.rglob("*.iocap")):
            by, listed, wrong = compare(binary, log)
            failed = failed or bool(wrong)
            print(f"{folder.name} {log.stem} {by}: {listed}{'; WRONG: ' + '; '.join(wrong) if wrong else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
