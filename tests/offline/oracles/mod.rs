//! Tests of the oracles in `tests/support`: each judges what it should, and each can fail.

mod diskstats;
mod machine;
mod name_compare;
mod otf2_check;
mod strace;
mod strace_compare;
