#!/usr/bin/env python3
"""Prints the licences of all that is linked into the program and was not written for it.

    scripts/third-party-licences.py [TARGET]

A table of names, versions and licences comes first, then each text once, with the names that have
it. The crates are those of Cargo.lock for the target (default: the machine's), without crates that
only tests or macros use at build time. Texts of crates whose package has none are in
contrib/licences, as is that of musl, for a target with musl. The notices of Rust's standard library
are those of the toolchain. The exit status is 1 if a licence or a text is missing.
"""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Texts of what brings none.
ADDED = ROOT / "contrib/licences"
# Beginnings of the names of files with terms or notices, in lower case.
NAMES = ("license", "licence", "copying", "notice", "unlicense", "copyright")
OWN = {"iotrace-perf", "otf2-sys"}
# Crates of the standard library that are Rust's own.
LIBRARY = {"alloc", "compiler_builtins", "core", "panic_abort", "panic_unwind", "proc_macro",
           "profiler_builtins", "std", "std_detect", "sysroot", "test", "unwind"}


def output(*command):
    """Returns the output of a command in the checkout."""
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def linked(target):
    """Returns names and versions of the crates in the program."""
    tree = output("cargo", "tree", "--locked", "-p", "iotrace-perf", "--edges",
                  "normal,no-proc-macro", "--target", target, "--prefix", "none", "--format", "{p}")
    words = [line.split() for line in tree.splitlines() if line]
    return {(name, version.removeprefix("v")) for name, version, *_ in words if name not in OWN}


def added(name):
    """Returns the text in contrib/licences for a crate or library, if there is one."""
    path = ADDED / f"{name}.txt"
    return [path.read_text().strip()] if path.is_file() else []


def texts(package):
    """Returns the texts of a crate's licences."""
    folder = Path(package["manifest_path"]).parent
    files = [path for path in sorted(folder.iterdir())
             if path.name.lower().startswith(NAMES) and path.is_file()]
    return [path.read_text(errors="replace").strip() for path in files] or added(package["name"])


class LibraryNotices(HTMLParser):
    """Notices of Rust's standard library: its own text, and the texts of crates in it."""

    def __init__(self):
        super().__init__()
        self.own = []
        self.crates = []  # name, licence, texts
        self.tag = ""

    def handle_starttag(self, tag, attrs):
        self.tag = tag if tag in ("h3", "pre") else self.tag
        if tag == "pre" and self.crates:
            self.crates[-1][2].append("")

    def handle_endtag(self, tag):
        self.tag = "" if tag == self.tag else self.tag

    def handle_data(self, data):
        if self.tag == "h3":
            self.crates.append([data.replace("\N{PACKAGE}", "").strip(), "", []])
        elif not self.crates:
            self.own.append(data)
        elif self.tag == "pre":
            self.crates[-1][2][-1] += data
        elif not self.crates[-1][2] and data.strip() and self.crates[-1][1] == "License:":
            self.crates[-1][1] = data.strip()
        elif data.strip() == "License:":
            self.crates[-1][1] = "License:"

    def own_text(self):
        """Returns the text about the library itself, without the table of contents."""
        lines = [line.strip() for line in "".join(self.own).splitlines()]
        lines = lines[lines.index("Longer version", lines.index("Table of Contents") + 5):]
        return "\n".join(line for line in lines if line)


def standard_library(target, of_crates):
    """Returns names, licences and texts of Rust's standard library and of the crates in it.

    Texts that the toolchain does not have are those of the program's own crates of that name."""
    sysroot = Path(output("rustc", "--print", "sysroot").strip())
    notices = LibraryNotices()
    path = sysroot / "share/doc/rust/COPYRIGHT-library.html"
    if path.is_file():
        notices.feed(path.read_text())
    rust = output("rustc", "-V").split()[1]
    own = [notices.own_text()] if notices.own else []
    yield f"Rust's standard library {rust}", "MIT OR Apache-2.0", own
    by_name = {name.rsplit("-", 1)[0].replace("-", "_"): (name, licence, found)
               for name, licence, found in notices.crates}
    libraries = (sysroot / "lib/rustlib" / target / "lib").glob("lib*.rlib")
    names = sorted({path.name.removeprefix("lib").rsplit("-", 1)[0] for path in libraries})
    if not names:
        yield f"Rust's standard library for {target}", "not installed", []
    for name in names:
        if name in by_name:
            yield f"{by_name[name][0]} (in it)", *by_name[name][1:]
        elif not (name in LIBRARY or name.startswith("rustc_std_workspace")):
            yield f"{name} (in it)", "see below", of_crates.get(name) or added(name)


def rows(target):
    """Returns names, licences and texts of all that is in the program for a target."""
    packages = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1"))
    wanted = linked(target)
    found = [(f"{package['name']} {package['version']}",
              package["license"] or f"see {package['license_file']}", texts(package))
             for package in packages["packages"]
             if (package["name"], package["version"]) in wanted]
    found.sort()
    of_crates = {name.split()[0].replace("-", "_"): texts for name, _, texts in found}
    found += standard_library(target, of_crates)
    if target.endswith("-musl"):
        found.append(("musl", "MIT", added("musl")))
    return found


def main():
    """Prints the table and the texts."""
    if any(word in ("-h", "--help") for word in sys.argv[1:]):
        print(__doc__.strip())
        return 0
    lines = output("rustc", "-vV").splitlines()
    host = next(line.split()[1] for line in lines if line.startswith("host:"))
    target = sys.argv[1] if len(sys.argv) > 1 else host
    title = f"Works of other authors in iotrace-perf for {target}, with their licences"
    print(f"{title}\n{'=' * len(title)}\n")
    missing = []
    by_text = {}
    for name, licence, found in rows(target):
        print(f"{name:<40} {licence}")
        if not found:
            missing.append(f"{name} has no text of its licence ({licence})")
        if not licence or licence == "see None":
            missing.append(f"{name} states no licence")
        for text in found:
            by_text.setdefault(text, []).append(name)
    for text, names in sorted(by_text.items(), key=lambda item: item[1]):
        print(f"\n\n{'-' * 79}\n{', '.join(names)}\n{'-' * 79}\n\n{text}")
    for line in missing:
        print(f"third-party-licences: {line}", file=sys.stderr)
    return 1 if missing else 0


sys.exit(main())
