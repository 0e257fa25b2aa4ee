"""The costs as a picture: one panel for each workload, one dot for each tracer, on a logarithmic axis."""

import math
from xml.sax.saxutils import escape

import table

WIDTH = 860
LEFT = 250
RIGHT = 30
ROW = 18
PANEL_TOP = 34
PANEL_BOTTOM = 30
OURS = "#0b62a4"
OTHERS = "#666666"
TITLE = "Extra time of one operation over untraced: median and range, logarithmic; ranges may go on at the left"


def svg(costs):
    parts = []
    top = 44
    for cost in costs:
        panel, height = _panel(cost, top)
        parts += panel
        top += height
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{top}" fill="white"/>',
        _text(10, 24, TITLE, 15),
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _panel(cost, top):
    names = [name for name in cost.series if name != "untraced"]
    height = PANEL_TOP + ROW * len(names) + PANEL_BOTTOM
    extras = [cost.extra(name) for name in names]
    positive = [it for it in extras if it is not None and it > 0]
    highest = [cost.series[name].high - cost.series["untraced"].median for name in names if cost.extra(name)]
    work = cost.workload
    parts = [_text(10, top + 20, f"{work.title.replace('`', '')} (for each {work.unit})", 13, "bold")]
    if not positive:
        parts.append(_text(LEFT, top + PANEL_TOP + 12, "nothing was measured above untraced"))
        return parts, height
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive + highest)))
    high = max(high, low + 1)

    def x_of(value):
        share = (math.log10(value) - low) / (high - low)
        return LEFT + min(1, max(0, share)) * (WIDTH - LEFT - RIGHT)

    bottom = top + PANEL_TOP + ROW * len(names)
    for power in range(low, high + 1):
        x = x_of(10**power)
        parts.append(_line(x, top + PANEL_TOP, x, bottom, "#dddddd"))
        parts.append(_text(x, bottom + 14, table.duration(10**power), anchor="middle"))
    for place, (name, extra) in enumerate(zip(names, extras)):
        y = top + PANEL_TOP + ROW * place + ROW / 2
        parts += _row(cost, name, extra, y, x_of)
    return parts, height


def _row(cost, name, extra, y, x_of):
    color = OURS if name.startswith("iotrace-perf") else OTHERS
    parts = [_text(LEFT - 10, y + 4, name, anchor="end", color=color)]
    if extra is None or extra <= 0:
        return [*parts, _text(LEFT + 4, y + 4, "n/a" if extra is None else "not above untraced", color=OTHERS)]
    plain, series = cost.series["untraced"], cost.series[name]
    ends = [max(it - plain.median, 1e-9) for it in (series.low, series.high)]
    parts.append(_line(x_of(ends[0]), y, x_of(ends[1]), y, color))
    parts.append(f'<circle cx="{x_of(extra):.1f}" cy="{y}" r="4" fill="{color}"/>')
    return parts


def _line(x1, y1, x2, y2, color):
    return f'<line x1="{x1:.1f}" y1="{y1}" x2="{x2:.1f}" y2="{y2}" stroke="{color}"/>'


def _text(x, y, text, size=12, weight="normal", anchor="start", color="black"):
    return (
        f'<text x="{x:.1f}" y="{y}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{color}">{escape(text)}</text>'
    )
