"""The table of scripts/kernel-matrix: from the output of the checks, DIR/KERNEL.CHECK.log."""

import re
import sys
from pathlib import Path

CHECKS = {
    "sources": "both sources the same, equal to /proc/PID/io",
    "names": "names of files, by name source",
    "asynchronous": "io_uring and libaio",
    "layers": "layers inside calls",
    "stacks": "stacked block devices",
    "unwind": "stacks of programs",
    "unprivileged": "own programs, without root",
}


def release(texts):
    """The kernel's own number."""
    for text in texts:
        if found := re.search(r"vm: linux (\S+) is up", text):
            return found[1]
    return "?"


def name_sources(text):
    """The name sources that there were, with tracefs and perf."""
    return sorted({row[1] for row in re.finditer(r"^\| \S+ \| (?:tracefs|perf), (\S+) \|", text, re.M)})


def cell(check, text):
    """Result of a check."""
    if text is None:
        return "not run"
    code = re.search(r"^exit status (\d+)$", text, re.M)
    verdict = "works" if code and code[1] == "0" else "**wrong**"
    if check == "names" and (found := name_sources(text)):
        verdict += ": " + ", ".join(found)
    missing = sorted(set(re.findall(r"not there: ([^\n]+)", text)))
    return verdict + (f"; not there: {', '.join(missing)}" if missing else "")


def main(directory, kernels):
    print("| Kernel | " + " | ".join(CHECKS.values()) + " |")
    print("|---" * (len(CHECKS) + 1) + "|")
    for kernel in kernels:
        logs = {check: Path(directory, f"{kernel}.{check}.log") for check in CHECKS}
        texts = {it: log.read_text(errors="replace") if log.exists() else None for it, log in logs.items()}
        number = release(it for it in texts.values() if it)
        print(f"| {number} | " + " | ".join(cell(check, texts[check]) for check in CHECKS) + " |")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
