//! Numbers of findings that the measures have today, by room; they only shrink.

/// Rooms (`src/cli`, `tests`; `.` is the whole crate) and their numbers.
pub(crate) type Baseline = &'static [(&'static str, usize)];

pub(crate) const SHARED_TYPE_NAMES: Baseline = &[];

pub(crate) const SHORT_CLOSURES_OF_IT: Baseline = &[
    ("src/analysis", 175),
    ("src/block", 57),
    ("src/capture", 63),
    ("src/cli", 4),
    ("src/event", 47),
    ("src/import", 5),
    ("src/naming", 94),
    ("src/operation", 479),
    ("src/otf2", 2),
    ("src/pipeline", 3),
    ("src/record", 33),
    ("src/replay", 276),
    ("src/report", 16),
    ("src/sys", 164),
    ("src/text", 1),
    ("src/tracer", 593),
];

pub(crate) const LONG_CLOSURES_OF_IT: Baseline = &[];

pub(crate) const FUNCTIONS_OF_IT: Baseline = &[];

pub(crate) const NAMES_WITH_TOLD: Baseline = &[];

pub(crate) const TUPLE_PARAMETERS: Baseline = &[];

pub(crate) const BARE_TIMES: Baseline = &[];

pub(crate) const IMPORTS_FROM_PARENT: Baseline = &[];

pub(crate) const CIRCLES: Baseline = &[];

pub(crate) const BANNED_WORDS: Baseline = &[];

pub(crate) const DOC_COMMENTS: Baseline = &[];

pub(crate) const LONG_COMMENTS: Baseline = &[];
