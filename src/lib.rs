//! A Linux I/O tracer on the kernel's tracepoints, through perf events and tracefs.
//!
//! One principle: **record facts, derive the rest.** While the program runs, the kernel's records
//! go into a capture log as they are, with the few facts that cannot be had later. Everything else
//! is a pure function of that log:
//!
//! ```text
//!  kernel rings ──► capture log ──► record ──► merge ──► event ──► operation ──►┬─ OTF2 archive
//!  (per CPU)        (raw frames,    bytes→     order     typed     begin+end    ├─ text, JSON
//!       +           names, host)    fields     by time   meaning   paired       └─ analysis ─► report
//!  names, /proc
//!  └── sys, tracer, capture ──┘└──────────────── pure: bytes in, values out ─────────────┘
//! ```
//!
//! A module uses only what stands before it here; `tests/tidy.rs` enforces it.

pub mod units;

pub mod anomaly;

pub mod tracefs;

pub mod record;

pub mod merge;

pub mod event;

pub mod block;

pub mod probe_sites;

pub mod capture;

pub mod sys;

pub mod tracer;

pub mod operation;

pub mod pipeline;

pub mod text;

pub mod otf2;

pub mod analysis;

pub mod replay;

pub mod replayer;

pub mod import;

pub mod report;

pub mod cli;
