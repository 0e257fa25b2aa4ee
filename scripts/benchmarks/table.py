"""Numbers and Markdown tables for people."""


def duration(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}" if abs(ns) < 999.5 * size else f"{ns / size:.0f} {unit}"
    return f"{ns:.3g} ns"


def count(number):
    return f"{number:,.0f}"


def share(part):
    return "0" if part == 0 else f"{100 * part:.2g} %"


def ratio(number):
    return f"{number:.2f}" if number < 10 else f"{number:.0f}"


def spread(series, shown):
    """Median, and the range when there is one."""
    if len(series.values) == 1:
        return shown(series.median)
    return f"{shown(series.median)} ({shown(series.low)} – {shown(series.high)})"


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def markdown(head, rows):
    """The first column to the left, the others to the right. A row may end early: the rest is empty."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    for row in rows:
        full = [cell(it) for it in row] + [""] * (len(head) - len(row))
        lines.append("| " + " | ".join(full) + " |")
    return "\n".join(lines) + "\n"
