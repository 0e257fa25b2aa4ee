//! Oracles: witnesses that know nothing of the code under test, and comparisons with them.

pub(crate) mod diskstats;
pub(crate) mod diskstats_check;
pub(crate) mod name_compare;
pub(crate) mod offset_oracle;
pub(crate) mod otf2_check;
pub(crate) mod proc_io;
pub(crate) mod strace;
