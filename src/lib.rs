//! Linux I/O tracer on the kernel's tracepoints, through perf events and tracefs.
//!
//! One principle: **record facts, derive the rest.** While the program runs, the kernel's records
//! go into a capture log unchanged, with the few facts that cannot be obtained later. Everything
//! else is a pure function of that log:
//!
//! ```text
//!  kernel rings ─► capture log ─► record ─► merge ─► event ─► operation ─►┬─ OTF2 archive
//!  (per CPU)       (raw frames,   bytes→    order    typed    begin+end   ├─ text, JSON
//!       +          names, host)   fields    by time  meaning  paired      └─ analysis ─► report
//!  names, /proc
//!  └── sys, tracer, capture ──┘└─────────────── pure: bytes in, values out ───────────────┘
//! ```
//!
//! A module uses only modules that precede it below; `tests/tidy.rs` enforces this.

// Basis of all rooms.

// Units and identities, one type each.
pub mod units;

// Anomalies, and the counters that reconcile input with output.
pub mod anomaly;

// Kernel formats: bytes in, values out.

// Parser of tracefs `format` files, and the field accessors compiled from them.
pub mod tracefs;

// Decoder of perf records and of tracefs ring pages.
pub mod record;

// Merges nearly ordered streams into one ordered stream.
pub mod merge;

// Decoded samples of tracepoints, in the kernel's terms.
pub mod event;

// Block requests, from the events of the block layer's tracepoints.
pub mod block;

// Code addresses at which a uprobe can read the path of a system call.
pub mod probe_sites;

// Capture log: its format, reader and writer.
pub mod capture;

// Recording.

// Kernel boundary: requests to the kernel, and all `unsafe` code.
pub mod sys;

// Records a program into a capture log.
pub mod tracer;

// Interpretation of a capture log.

// Assigns names to the calls that they were read for, and judges them.
pub mod naming;

// Operations: begin and end paired, descriptors followed, block requests attributed.
pub mod operation;

// Capture log → operations, in one or several threads.
pub mod pipeline;

// Output.

// Operations as lines of text and JSON.
pub mod text;

// Operations as an OTF2 archive.
pub mod otf2;

// Operations as a Perfetto trace.
pub mod perfetto;

// Operations → tables in Parquet files.
pub mod columnar;

// Folds over operations: totals, latencies, files, patterns.
pub mod analysis;

// Replay, import and the user interface.

// Turns a capture into a replay plan, executes the plan and compares the results with the capture.
pub mod replay;

// Turns the log of another tool into a capture log.
pub mod import;

// Replaces the names in a capture log by pseudonyms.
pub mod capsule;

// Renders analysis results as tables, JSON and CSV.
pub mod report;

// Command-line interface: one module per subcommand.
pub mod cli;
