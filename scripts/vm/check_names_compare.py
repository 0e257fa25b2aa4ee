#!/usr/bin/env python3
"""Compares logs with the calls of the recorded program, and prints a table.

    scripts/vm/check_names_compare.py BINARY FOLDER...

Each FOLDER is of one kernel and has SOURCE-NAMES.iocap and SOURCE-NAMES.truth, see
scripts/vm/check-names-work.c. A name is

    right     the path that the program passed; of a file that was opened, that or its target
    in part   correctly marked as the beginning of a name, or as a string of an event, with dots for bytes that
              cannot be printed
    doubtful  marked as unverified, right or not
    unknown   not there
    wrong     none of these

and an offset right, unknown or wrong. The exit status is 1 if something is wrong, but for names of the reader: an emulated
processor can outrun it.
"""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

# The program's name for a call, and the tracepoint's.
TRACEPOINTS = {"stat": "newstat"}
MOVES = ("read", "write")
BYTES = 17


def text_of(field):
    if field == "-":
        return None
    return b"" if field == "." else bytes.fromhex(field)


def truth_of(path):
    """Calls of the program, by thread."""
    threads = defaultdict(list)
    for line in path.read_text().splitlines():
        thread, call, result, first, second, whole, offset = line.split(" ")
        threads[int(thread)].append({
            "call": TRACEPOINTS.get(call, call),
            "result": int(result),
            "path": text_of(first),
            "second": text_of(second),
            "whole": text_of(whole),
            "offset": None if offset == "-" else int(offset),
        })
    return threads


def operations_of(binary, log, calls):
    """The operations of these calls, by thread."""
    threads = defaultdict(list)
    output = subprocess.run([binary, "script", "--json", log], check=True, capture_output=True).stdout
    for line in output.splitlines():
        it = json.loads(line)
        if it["kind"] != "syscall" or it["name"] not in calls:
            continue
        if it["name"] in MOVES and it["bytes_requested"] != BYTES:
            continue
        threads[it["tid"]].append(it)
    return threads


def bytes_of(operation, key):
    if operation.get(f"{key}_bytes"):
        return bytes.fromhex(operation[f"{key}_bytes"])
    path = operation.get(key)
    return None if path is None else path.encode()


def printable(path):
    """A path as the kernel shows it in an event: isprint() of Latin-1."""
    return bytes(it if 0x20 <= it < 0x7F or it >= 0xA0 else ord(".") for it in path)


def judge(found, source, expected):
    if found is None:
        return "unknown"
    if source == "unverified":
        return "doubtful"
    if source == "event-string-cut":
        return "in part" if any(printable(it).startswith(found) for it in expected) else "wrong"
    if found in expected:
        return "right"
    if source == "event-string":
        return "in part" if any(printable(it) == found for it in expected) else "wrong"
    return "wrong"


def compare(operation, truth, counts, wrong):
    def count(what, verdict, found, expected):
        counts[what, verdict] += 1
        if verdict == "wrong":
            wrong.append((what, f"{operation['name']}: {str(found)[:80]}, not {str(expected)[:80]}"))

    expected = [it for it in (truth["path"], truth["whole"]) if it is not None]
    if truth["call"] == "openat" and truth["path"] is None:
        # The pointer of the path is invalid.
        if bytes_of(operation, "path") is not None:
            count("name", "wrong", bytes_of(operation, "path"), None)
        return
    if truth["path"] is not None:
        found = bytes_of(operation, "path")
        count("name", judge(found, operation["path_source"], expected), found, expected)
    if truth["second"] is not None:
        found = bytes_of(operation, "path2")
        source = operation.get("path2_source")
        count("name", judge(found, source, [truth["second"]]), found, truth["second"])
    if operation["name"] in MOVES:
        found = operation["offset"]
        right = found == truth["offset"]
        verdict = "right" if right else "unknown" if found is None else "wrong"
        count("offset", verdict, found, truth["offset"])


def main(binary, folders):
    columns = ("right", "in part", "doubtful", "unknown", "wrong")
    print("| Kernel | Source, name source | Names | " + " | ".join(columns) + " | Offsets | right | unknown | wrong |")
    print("|" + "---|" * (2 + 1 + len(columns) + 4))
    is_bad = False
    for folder in folders:
        truths = sorted(Path(folder).glob("*.truth"))
        if not truths:
            print(f"FAILED: {folder}: nothing was recorded", file=sys.stderr)
            is_bad = True
        for truth_path in truths:
            threads = truth_of(truth_path)
            calls = {it["call"] for its in threads.values() for it in its}
            operations = operations_of(binary, truth_path.with_suffix(".iocap"), calls)
            counts, wrong = Counter(), []
            for thread, its in threads.items():
                # Calls of the loader and of the runtime come first.
                found = operations[thread][-len(its):]
                if [(it["name"], it["result"]) for it in found] != [(it["call"], it["result"]) for it in its]:
                    wrong.append(("calls", f"thread {thread}: other calls than the program made"))
                    continue
                for operation, truth in zip(found, its):
                    compare(operation, truth, counts, wrong)
            names = sum(n for (what, _), n in counts.items() if what == "name")
            offsets = sum(n for (what, _), n in counts.items() if what == "offset")
            cells = [folder.rstrip("/").split("/")[-1], truth_path.stem.replace("-", ", "), names]
            cells += [counts["name", it] for it in columns]
            cells += [offsets] + [counts["offset", it] for it in ("right", "unknown", "wrong")]
            print("| " + " | ".join(str(it) for it in cells) + " |")
            for what, line in wrong[:20]:
                print(f"FAILED: {folder}: {truth_path.stem}: {what}: {line}", file=sys.stderr)
            is_bad |= bool(wrong)
    return 1 if is_bad else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
