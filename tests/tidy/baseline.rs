//! Numbers of findings that the measures have today, by room; they only shrink.

/// Rooms (`src/cli`, `tests`; `.` is the whole crate) and their numbers.
pub(crate) type Baseline = &'static [(&'static str, usize)];

pub(crate) const SHARED_TYPE_NAMES: Baseline = &[(".", 142)];

pub(crate) const SHORT_CLOSURES_OF_IT: Baseline = &[
    ("src/analysis", 187),
    ("src/block", 61),
    ("src/capture", 59),
    ("src/event", 48),
    ("src/operation", 611),
    ("src/record", 28),
    ("src/replay", 506),
    ("src/replayer", 156),
    ("src/sys", 174),
    ("src/tracer", 625),
];

pub(crate) const LONG_CLOSURES_OF_IT: Baseline = &[
    ("src/analysis", 10),
    ("src/block", 18),
    ("src/capture", 3),
    ("src/event", 2),
    ("src/operation", 20),
    ("src/record", 2),
    ("src/replay", 30),
    ("src/replayer", 8),
    ("src/sys", 14),
    ("src/tracer", 47),
];

pub(crate) const TUPLE_PARAMETERS: Baseline = &[
    ("src/analysis", 8),
    ("src/event", 2),
    ("src/import", 11),
    ("src/operation", 22),
    ("src/otf2", 8),
    ("src/replay", 28),
    ("src/replayer", 11),
    ("src/sys", 3),
    ("src/text", 5),
    ("src/tracer", 26),
];

pub(crate) const BARE_TIMES: Baseline = &[("src/replay", 85), ("src/replayer", 24)];

pub(crate) const IMPORTS_FROM_PARENT: Baseline = &[
    ("src/analysis", 4),
    ("src/event", 11),
    ("src/import", 8),
    ("src/operation", 39),
    ("src/pipeline", 1),
    ("src/replay", 103),
    ("src/sys", 3),
    ("src/tracer", 3),
];

pub(crate) const CIRCLES: Baseline = &[
    ("src/analysis", 2),
    ("src/block", 6),
    ("src/event", 5),
    ("src/import", 7),
    ("src/operation", 31),
    ("src/otf2", 4),
    ("src/pipeline", 2),
    ("src/replay", 24),
    ("src/replayer", 8),
    ("src/sys", 7),
    ("src/tracer", 18),
];

pub(crate) const BANNED_WORDS: Baseline = &[
    ("benches", 3),
    ("docs", 8),
    ("examples", 1),
    ("fuzz", 1),
    ("otf2-bindings", 4),
    ("src/analysis", 61),
    ("src/block", 28),
    ("src/capture", 15),
    ("src/event", 18),
    ("src/operation", 119),
    ("src/record", 6),
    ("src/replay", 180),
    ("src/replayer", 109),
    ("src/sys", 114),
    ("src/tracer", 121),
    ("tests", 209),
];

pub(crate) const DOC_COMMENTS: Baseline = &[
    ("benches", 6),
    ("fuzz", 8),
    ("otf2-bindings", 72),
    ("src/analysis", 89),
    ("src/anomaly", 5),
    ("src/block", 36),
    ("src/capture", 71),
    ("src/cli", 84),
    ("src/event", 104),
    ("src/import", 66),
    ("src/operation", 205),
    ("src/otf2", 30),
    ("src/pipeline", 16),
    ("src/probe_sites", 22),
    ("src/record", 36),
    ("src/replay", 268),
    ("src/replayer", 118),
    ("src/report", 33),
    ("src/sys", 102),
    ("src/text", 24),
    ("src/tracefs", 7),
    ("src/tracer", 272),
    ("tests", 182),
];

pub(crate) const LONG_COMMENTS: Baseline = &[
    ("benches", 9),
    ("examples", 2),
    ("fuzz", 19),
    ("otf2-bindings", 31),
    ("src/analysis", 89),
    ("src/block", 74),
    ("src/capture", 86),
    ("src/event", 90),
    ("src/lib", 1),
    ("src/merge", 6),
    ("src/operation", 264),
    ("src/otf2", 3),
    ("src/probe_sites", 3),
    ("src/record", 32),
    ("src/replay", 262),
    ("src/replayer", 115),
    ("src/sys", 269),
    ("src/text", 8),
    ("src/tracer", 291),
    ("tests", 369),
];
