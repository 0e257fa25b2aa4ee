"""Interleaved rounds: every case once in each, in another order each time."""

import random
import statistics
import sys
import time
from dataclasses import dataclass, field

from process import Failed


@dataclass
class Series:
    """The figures of one case, one from each round; `failure`: the reason why there are no more."""

    values: list = field(default_factory=list)
    failure: str | None = None

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def low(self):
        return min(self.values)

    @property
    def high(self):
        return max(self.values)

    def __bool__(self):
        return bool(self.values)

    def overlaps(self, other):
        return self.low <= other.high and other.low <= self.high


def measure(title, cases, rounds):
    """`cases`: name → function that gives a figure, or raises Failed; that ends the case. → name → Series."""
    found = {name: Series() for name in cases}
    for number in range(1, rounds + 1):
        order = [name for name in cases if found[name].failure is None]
        random.shuffle(order)
        for name in order:
            since = time.monotonic()
            said = "done"
            try:
                found[name].values.append(cases[name]())
            except Failed as failed:
                found[name].failure = f"round {number}: {failed}" if number > 1 else str(failed)
                said = str(failed)
            took = f"{time.monotonic() - since:.1f} s"
            print(f"bench: {title}, round {number} of {rounds}: {name}: {took}: {said}", file=sys.stderr, flush=True)
    return found
