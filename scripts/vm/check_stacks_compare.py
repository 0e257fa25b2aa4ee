"""Recordings of scripts/vm/run-check-stacks, against the kernel's own numbers.

    check_stacks_compare.py BINARY FOLDER...

Each FOLDER has the logs of one kernel, and beside each the counters before and
after, the tables of dm and md, and the places of the files by filefrag. Checked is:

- the ways down: each level of each piece of a request is at the place that
  the tables give, and requests below a device were asked of that device;
- the files: each piece of a file is at the place that filefrag gives; all bytes of each
  file were written, on both disks of a mirror, and read;
- who: dd wrote them, cat and dd read them, whichever thread of a driver of
  stacks handed them on;
- the counts: requests, sectors and merges of each device are those of
  /proc/diskstats, but for the differences of dm, md and zram that `otherwise` knows;
- the books: nothing lost, nothing unmatched.

Prints Markdown: docs/block-stacks.md explains the columns. The exit status
is the number of defects.
"""

import collections
import glob
import json
import os
import re
import subprocess
import sys

FILES = {"fsynced": 20 << 16, "direct": 56 << 19, "synced": 101 << 12}
# (A worker of the kernel works for many: its name is that of its last work.)
DRIVERS = re.compile(r"md\d+_raid|kdmflush|dmcrypt_|loop\d")
CLASSES = ("read", "write", "discard", "flush")
defects = 0


def defect(name, text):
    global defects
    defects += 1
    if defects <= 60:
        print(f"FAILED: {name}: {text}", file=sys.stderr)


class Stack:
    """The devices of a stack, and the devices below each."""

    def __init__(self, path, kernel):
        self.kernel = kernel
        self.names, self.parts, self.tables, self.arrays = {}, {}, {}, {}
        for line in open(path):
            word = line.split()
            if word[0] == "name":
                self.names[word[1]] = word[2]
            elif word[0] == "part":
                self.parts[word[1]] = (word[2], int(word[3]), int(word[4]))
            elif word[0] == "dm":
                row = (int(word[2]), int(word[3]), word[4], word[5:])
                self.tables.setdefault(word[1], []).append(row)
            elif word[0] == "md":
                legs = [it.split(",") for it in word[5:]]
                legs = [(dev, int(offset)) for dev, offset in legs]
                self.arrays[word[1]] = (word[2], int(word[3]) // 512, int(word[4]), legs)
            elif word[0] == "top":
                self.top = word[1]
        self.devices = self.below(self.top)

    def legs(self, dev):
        """The places directly below a device: (device, first sector, length)."""
        if dev in self.parts:
            return [self.parts[dev]]
        if dev in self.arrays:
            level, _, size, legs = self.arrays[dev]
            each = size if level == "raid1" else size // max(1, len(legs) - (level == "raid5"))
            return [(leg, offset, each) for leg, offset in legs]
        found = []
        for _, length, kind, words in self.tables.get(dev, []):
            if kind == "linear":
                found.append((words[0], int(words[1]), length))
            elif kind == "crypt":
                found.append((words[3], int(words[4]), length))
            elif kind == "striped":
                for at in range(int(words[0])):
                    place = words[2 + 2 * at : 4 + 2 * at]
                    found.append((place[0], int(place[1]), length // int(words[0])))
        return found

    def is_silent(self, dev):
        """dm-crypt reports its requests to its disk since 5.18: before, only flushes."""
        crypts = [dev for dev, rows in self.tables.items() if rows[0][2] == "crypt"]
        return self.kernel < (5, 18) and any(dev == leg[0] for it in crypts for leg in self.legs(it))

    def is_striped(self, dev):
        level = self.arrays[dev][0] if dev in self.arrays else None
        return level == "raid0" or any(it[2] == "striped" for it in self.tables.get(dev, []))

    def below(self, dev):
        """The device and all devices below it."""
        found = [dev]
        for leg, _, _ in self.legs(dev):
            found += [it for it in self.below(leg) if it not in found]
        return found

    def down(self, dev, sector):
        """Places of this sector on the devices directly below."""
        if dev in self.parts:
            return [(self.parts[dev][0], self.parts[dev][1] + sector)]
        if dev in self.arrays:
            level, chunk, _, legs = self.arrays[dev]
            if level == "raid1":
                return [(leg, offset + sector) for leg, offset in legs]
            if level == "raid0":
                return [striped([(leg, offset) for leg, offset in legs], chunk, sector)]
            return []
        for start, length, kind, words in self.tables.get(dev, []):
            inside = sector - start
            if not 0 <= inside < length:
                continue
            if kind == "linear":
                return [(words[0], int(words[1]) + inside)]
            if kind == "crypt":
                return [(words[3], int(words[4]) + inside)]
            if kind == "striped":
                legs = [(words[i], int(words[i + 1])) for i in range(2, len(words) - 1, 2)]
                return [striped(legs, int(words[1]), inside)]
        return []

    def above(self, dev, sector):
        """A device of this stack that keeps something here."""
        for upper in self.devices:
            for leg, start, length in self.legs(upper):
                if leg == dev and start <= sector < start + length:
                    return upper
        return None


def striped(legs, chunk, sector):
    number, inside = divmod(sector, chunk)
    dev, start = legs[number % len(legs)]
    return (dev, start + number // len(legs) * chunk + inside)


def counters(path):
    found = {}
    for line in open(path):
        word = line.split()
        numbers = [int(it) for it in word[3:]] + [0] * 20
        found[f"{word[0]}:{word[1]}"] = {
            "read": numbers[0], "read merges": numbers[1], "read sectors": numbers[2],
            "write": numbers[4], "write merges": numbers[5], "write sectors": numbers[6],
            "discard": numbers[11], "discard merges": numbers[12], "discard sectors": numbers[13],
            "flush": numbers[15],
        }  # fmt: skip
    return found


def frags(path):
    """(sector on the top device, sector in the file, sectors, inode, name)."""
    found, inodes = [], {}
    for line in open(path):
        if line.startswith("file "):
            _, name, inode = line.split()
            inodes[name] = int(inode)
        elif match := re.match(r"\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*(\d+)\.\.", line):
            begin, end, sector = map(int, match.groups())
            found.append((sector, begin, end - begin + 1, inodes[name], name))
    return found


def run(binary, *words):
    return subprocess.run([binary, *words], check=True, capture_output=True).stdout


class Log:
    def __init__(self, binary, path, stack):
        self.name, self.stack = path, stack
        self.info = json.loads(run(binary, "info", "--json", path))
        self.comms, self.requests = {}, []
        self.endless = collections.Counter()
        for line in run(binary, "script", "--json", path).splitlines():
            line = json.loads(line)
            if line.get("comm"):
                self.comms[line["tid"]] = line["comm"]
            if line["kind"] == "block":
                self.requests.append(line)
            elif line.get("what") == "unmatched-block":
                defect(path, line["detail"])

    def books(self):
        wanted = {"lost": 0, "unmatched": 0, "imbalances": [], "complete": True, "missing": {}}
        for key, value in wanted.items():
            if self.info[key] != value:
                defect(self.name, f"{key} is {self.info[key]}")

    def counts(self):
        found = collections.defaultdict(collections.Counter)
        for it in self.requests:
            kind, done = it["diskstats"], it["bytes_done"]
            if self.is_endless(it):
                kind = it["op"] if it["op"] in ("read", "discard") else "write"
                done = it["bytes"]
                self.endless[it["dev"]] += 1
            if kind is None:
                continue
            books = found[it["dev"]]
            books[kind] += 1
            if kind != "flush":
                books[f"{kind} sectors"] += done // 512
                books[f"{kind} merges"] += it["merges"]
        return found

    def is_endless(self, it):
        """Before 5.13 a bio of a device without requests has no recorded end if another one waits for it."""
        is_bio = it["queued_ns"] is None and it["flush"] != "device"
        return self.stack.kernel < (5, 13) and is_bio and it["ending"] == "unfinished"

    def pieces(self):
        for it in self.requests:
            if (it["ending"] == "completed" or self.is_endless(it)) and it["dev"] in self.stack.devices:
                yield from ((it, piece) for piece in it["pieces"])

    def ways(self):
        """Follows each piece down; returns the number of those with a way, and those without."""
        whole, none = 0, collections.Counter()
        for request, piece in self.pieces():
            way = [(request["dev"], piece["sector"])]
            way += [(it["dev"], it["sector"]) for it in piece["levels"]]
            is_flush = piece["bytes"] == 0
            for lower, upper in zip(way, way[1:]):
                below = self.stack.down(*upper)
                # A flush has no sector, and nothing to ask of a partition of its disk. For a
                # discard on stripes the kernel reports on each disk the beginning of the whole.
                is_loose = is_flush or (request["op"] == "discard" and self.stack.is_striped(upper[0]))
                if lower not in below and not (is_loose and lower[0] in self.stack.below(upper[0])):
                    defect(self.name, f"{lower} is not below {upper}: {request['rwbs']}")
            comm = self.comms.get(piece["tid"], "?")
            if len(way) > 1 and not is_flush and DRIVERS.match(comm):
                defect(self.name, f"{way} {request['rwbs']} was queued by {comm}")
            missing = self.stack.above(*way[-1])
            if missing is None:
                whole += len(way) > 1
            elif self.stack.is_silent(request["dev"]):
                none["dm-crypt"] += 1
            elif not is_flush:
                defect(self.name, f"{way} {request['rwbs']} by {comm} does not come from {missing}")
                none["by " + re.sub(r"[/:].*|\d+_?", "", comm)] += 1
            else:
                none["flush"] += 1
        return whole, none

    def files(self, truth):
        """All bytes of the files, and the programs that moved them."""
        done = collections.Counter()
        for request, piece in self.pieces():
            if piece["behind"] != "file" or request["op"] not in ("read", "write"):
                continue
            # Directories have pieces, too.
            if piece.get("ino") not in [it[3] for it in truth]:
                continue
            top = piece["levels"][-1] if piece["levels"] else {"dev": request["dev"], "sector": piece["sector"]}
            sectors = piece["bytes"] // 512
            at = [it for it in truth if it[3] == piece["ino"] and it[0] <= top["sector"] < it[0] + it[2]]
            # Inferred links are marked: one may be wrong, but counts only if it is right.
            if piece["link"] != "exact" and (not at or piece["offset"] != (at[0][1] + top["sector"] - at[0][0]) * 512):
                continue
            if not at or piece["fs_dev"] != self.stack.top:
                defect(self.name, f"inode {piece['ino']} is not at {top}")
                continue
            start, inside, length, _, name = at[0]
            if top["dev"] != self.stack.top or piece["offset"] != (inside + top["sector"] - start) * 512:
                defect(self.name, f"{name}: {top} is not offset {piece['offset']}")
            # An object read too late has no name, which is reported; it never has another's name.
            if not (piece["path"] or "").endswith("/" + name) and not (piece["path"] is None and self.info["unnamed"]):
                defect(self.name, f"{name} is called {piece['path']}")
            done[request["op"], name, request["dev"]] += piece["bytes"]
            done[request["op"], name, piece["link"], request["dev"]] += piece["bytes"]
            comm = self.comms.get(piece["tid"], "?")
            who = {comm} | {it["comm"] for it in piece["writers"]}
            if not who & ({"dd"} if request["op"] == "write" else {"dd", "cat"}):
                defect(self.name, f"{name}: {request['op']} by {who}")
        for dev in self.stack.devices:
            if dev in self.stack.parts or self.stack.is_silent(dev):
                continue
            legs = self.legs_of(dev)
            for op, names in (("write", FILES), ("read", ("fsynced", "direct"))):
                for name in names:
                    moved = sum(done[op, name, it] for it in legs)
                    copies = len(legs) if self.is_mirror(dev) and op == "write" else 1
                    whole = FILES[name] * copies
                    if moved < whole and self.info["unnamed"]:
                        print(f"reported: {self.name}: {self.info['unnamed']} names were read too late; {name}: {op} {moved} of {whole}")
                    elif moved != whole:
                        defect(self.name, f"{name}: {op} {moved} of {whole} bytes on {legs}")

    def otherwise(self, dev, ours, kernel):
        """Other counts of a device without requests, in words; None: a difference that is not understood."""
        differs = {key: it - ours[key] for key, it in kernel.items() if it != ours[key]}
        name = self.stack.names[dev]
        bios = [it for it in self.requests if it["dev"] == dev and (it["diskstats"] or self.is_endless(it))]
        expected = dict.fromkeys(kernel, 0)
        if name.startswith("dm-"):
            # dm counts the pieces into which it cuts a bio, and twice a write that begins with a
            # flush (to 5.17 or so its sectors, too).
            twice = sum(it["bytes"] // 512 for it in bios if it["op"] == "write" and it["rwbs"].startswith("F"))
            if any(it < 0 for it in differs.values()):
                return None
            if [it for key, it in differs.items() if "sectors" in key and (key != "write sectors" or it != twice)]:
                return None
        elif name.startswith("md"):
            demands = sum(it["flush"] == "demand" for it in bios)
            expected.update({"write": -demands, "discard": -ours["discard"], "discard sectors": -ours["discard sectors"]})
        elif name.startswith("zram"):
            zeroes = [it["bytes"] // 512 for it in bios if it["op"] in ("write-zeroes", "other")]
            expected.update({"write": -len(zeroes), "write sectors": -sum(zeroes)})
            expected.update({"discard": -ours["discard"], "discard sectors": -ours["discard sectors"]})
        if not name.startswith("dm-") and any(it != expected[key] for key, it in differs.items()):
            return None
        return ", ".join(f"{it:+} {key if 'sectors' in key else key + 's'}" for key, it in differs.items())

    def is_mirror(self, dev):
        return any(dev in [leg for leg, _ in it[3]] and it[0] == "raid1" for it in self.stack.arrays.values())

    def legs_of(self, dev):
        """The devices beside it."""
        for upper in self.stack.devices:
            legs = [it[0] for it in self.stack.legs(upper)]
            legs = [self.stack.parts[it][0] if it in self.stack.parts else it for it in legs]
            if dev in legs and upper not in self.stack.parts:
                return legs
        return [dev]

    def mirrors(self):
        """Both disks of a mirror are written the same."""
        for level, _, _, legs in self.stack.arrays.values():
            if level != "raid1" or legs[0][0] not in self.stack.devices:
                continue
            sides = [collections.Counter() for _ in legs]
            for request, piece in self.pieces():
                for side, (leg, _) in zip(sides, legs):
                    if request["dev"] == leg and request["op"] != "read" and piece["levels"]:
                        start = piece["levels"][-1]["sector"]
                        for at in range(piece["bytes"] // 512):
                            offset = piece.get("offset")
                            offset = None if offset is None else offset + at * 512
                            side[request["op"], start + at, piece.get("ino"), offset] += 1
            for side in sides[1:]:
                if side != sides[0]:
                    differ = [*(side - sides[0]).items(), *(sides[0] - side).items()]
                    defect(self.name, f"the mirrors differ: {differ[:3]}")


def row(binary, folder, name):
    """Compares one log."""
    path = f"{folder}/{name}.iocap"
    stack_name, source = name.rsplit("-", 1)
    release = os.path.basename(folder)
    kernel = tuple(int(it) for it in re.findall(r"\d+", release)[:2])
    stack = Stack(f"{folder}/{stack_name}.facts", kernel)
    log = Log(binary, path, stack)
    log.books()
    log.files(frags(f"{folder}/{name}.files"))
    log.mirrors()
    whole, none = log.ways()
    before, after = (counters(f"{folder}/{name}.{it}") for it in ("before", "after"))
    ours = log.counts()
    equal, other = [], []
    for dev in stack.devices:
        if dev in stack.parts:
            continue
        counted = {key: after[dev][key] - before[dev][key] for key in after[dev]}
        words = log.otherwise(dev, ours[dev], counted)
        if words is None:
            defect(path, f"{stack.names[dev]}: {dict(ours[dev])}, the kernel counted {counted}")
            other.append(f"{stack.names[dev]}: not understood")
        elif words:
            other.append(f"{stack.names[dev]}: {words}")
        else:
            number = sum(counted[it] for it in CLASSES)
            equal.append(f"{stack.names[dev]} {number}")
    endless = sum(log.endless.values())
    cells = [re.match(r"[\d.]+", release)[0], stack_name, source, whole, sum(none.values()), log.info["unmatched"],
             endless, ", ".join(equal), "; ".join(other)]
    print("|", " | ".join(str(it) for it in cells), "|")


def main():
    binary, folders = sys.argv[1], sys.argv[2:]
    print("| Linux | stack | source | with their way | without | unmatched | endless | equal | the kernel counts otherwise |")
    print("|---|---|---|--:|--:|--:|--:|---|---|")
    for folder in folders:
        for path in sorted(glob.glob(f"{folder}/*.iocap")):
            name = os.path.basename(path)[: -len(".iocap")]
            if not name.startswith("corpus"):
                row(binary, folder, name)
    print(f"defects: {defects}", file=sys.stderr)
    return min(defects, 100)


sys.exit(main())
