//! Tests that need neither root nor tracepoints: bytes in, values out. Some run other programs
//! (`strace`, `otf2-print`), or make a loop device, where the machine has them.

mod advice_rules;
mod capsule;
mod capture_log;
mod clock_ranks;
mod clocks;
mod diff;
mod engines;
mod excerpt;
mod format_files;
mod golden;
mod import;
mod import_darshan;
mod import_traces;
mod job_balance;
mod job_index;
mod job_page;
mod json_document;
mod merge;
mod oracles;
mod packaging;
mod page;
mod parquet;
mod perfetto;
mod pipeline;
mod scale;
mod screens;
#[path = "../support/mod.rs"]
mod support;
mod upgrade;
