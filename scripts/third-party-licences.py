#!/usr/bin/env python3
"""Prints the licences of the crates that are linked into the program.

    scripts/third-party-licences.py [TARGET]

A table of names, versions and licences comes first, then each text once, with the crates that have
it. The crates are those of Cargo.lock for the target (default: the machine's), without crates that
only tests or macros use at build time. The exit status is 1 if a crate says nothing of a licence.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Beginnings of the names of files with terms or notices, in lower case.
NAMES = ("license", "licence", "copying", "notice", "unlicense", "copyright")
OWN = {"iotrace-perf", "otf2-sys"}


def cargo(*arguments):
    """Returns the output of cargo in the checkout."""
    command = ["cargo", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def linked(target):
    """Returns names and versions of the crates in the program."""
    tree = cargo("tree", "--locked", "-p", "iotrace-perf", "--edges", "normal,no-proc-macro",
                 "--target", target, "--prefix", "none", "--format", "{p}")
    words = [line.split() for line in tree.splitlines() if line]
    return {(name, version.removeprefix("v")) for name, version, *_ in words if name not in OWN}


def texts(package):
    """Returns the texts of a crate's licences, by the names of their files."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.name.lower().startswith(NAMES))
    for path in files:
        if path.is_file():
            yield path.name, path.read_text(errors="replace").strip()


def main():
    """Prints the table and the texts."""
    if any(word in ("-h", "--help") for word in sys.argv[1:]):
        print(__doc__.strip())
        return 0
    host = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    host = next(line.split()[1] for line in host.splitlines() if line.startswith("host:"))
    target = sys.argv[1] if len(sys.argv) > 1 else host
    packages = json.loads(cargo("metadata", "--locked", "--format-version", "1"))["packages"]
    wanted = linked(target)
    packages = [it for it in packages if (it["name"], it["version"]) in wanted]
    packages.sort(key=lambda package: (package["name"], package["version"]))
    unknown = [it["name"] for it in packages if not (it["license"] or it["license_file"])]

    print("Crates of other authors in iotrace-perf, with their licences")
    print("=============================================================\n")
    by_text = {}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        print(f"{name:<36} {package['license'] or 'see ' + str(package['license_file'])}")
        for _, text in texts(package):
            by_text.setdefault(text, []).append(name)
    for text, names in sorted(by_text.items(), key=lambda item: item[1]):
        print(f"\n\n{'-' * 79}\n{', '.join(names)}\n{'-' * 79}\n\n{text}")
    for name in unknown:
        print(f"third-party-licences: {name} states no licence", file=sys.stderr)
    return 1 if unknown else 0


sys.exit(main())
