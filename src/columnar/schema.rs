//! Columns of the tables. `docs/reference/parquet.md` describes each.

use super::column::ColumnKind::{Signed, Text, Unsigned, WallTime};
use super::table::TableSchema;

/// Calls, asynchronous operations and page faults, in the order of their ends.
pub(super) const OPERATIONS: TableSchema = TableSchema {
    name: "operations",
    columns: &[
        ("recording", Unsigned),
        ("kind", Text),
        ("name", Text),
        ("time", WallTime),
        ("start_ns", Signed),
        ("duration_ns", Unsigned),
        ("process", Unsigned),
        ("pid", Signed),
        ("tid", Signed),
        ("comm", Text),
        ("cpu", Unsigned),
        ("fd", Signed),
        ("file", Unsigned),
        ("path", Text),
        ("path_source", Text),
        ("path2", Text),
        ("offset", Unsigned),
        ("bytes_requested", Unsigned),
        ("bytes", Unsigned),
        ("result", Signed),
        ("errno", Text),
        ("fs_dev", Text),
        ("ino", Unsigned),
        ("unfinished", Text),
    ],
};

/// Block requests, in the order of their ends.
pub(super) const REQUESTS: TableSchema = TableSchema {
    name: "requests",
    columns: &[
        ("recording", Unsigned),
        ("request", Unsigned),
        ("dev", Text),
        ("disk", Text),
        ("op", Text),
        ("rwbs", Text),
        ("sector", Unsigned),
        ("bytes", Unsigned),
        ("bytes_done", Unsigned),
        ("time", WallTime),
        ("start_ns", Signed),
        ("bio_queued_ns", Signed),
        ("queued_ns", Signed),
        ("inserted_ns", Signed),
        ("issued_ns", Signed),
        ("completed_ns", Signed),
        ("pid", Signed),
        ("tid", Signed),
        ("comm", Text),
        ("merges", Unsigned),
        ("requeues", Unsigned),
        ("ending", Text),
        ("diskstats", Text),
        ("error", Text),
    ],
};

/// Parts of requests by file and program.
pub(super) const PIECES: TableSchema = TableSchema {
    name: "pieces",
    columns: &[
        ("recording", Unsigned),
        ("request", Unsigned),
        ("dev", Text),
        ("op", Text),
        ("sector", Unsigned),
        ("bytes", Unsigned),
        ("time", WallTime),
        ("start_ns", Signed),
        ("contents", Text),
        ("link", Text),
        ("program_link", Text),
        ("pid", Signed),
        ("tid", Signed),
        ("writers", Unsigned),
        ("writer_pid", Signed),
        ("writer_comm", Text),
        ("path", Text),
        ("fs_dev", Text),
        ("ino", Unsigned),
        ("offset", Unsigned),
    ],
};

/// Processes, in the order of their ends.
pub(super) const PROCESSES: TableSchema = TableSchema {
    name: "processes",
    columns: &[
        ("recording", Unsigned),
        ("process", Unsigned),
        ("pid", Signed),
        ("parent", Unsigned),
        ("parent_pid", Signed),
        ("comm", Text),
        ("program", Text),
        ("command_line", Text),
        ("cgroup", Text),
        ("user", Unsigned),
        ("process_rank", Unsigned),
        ("seen_ns", Signed),
        ("ended_ns", Signed),
    ],
};

/// Open files, in the order of the ends of their first operations.
pub(super) const FILES: TableSchema = TableSchema {
    name: "files",
    columns: &[
        ("recording", Unsigned),
        ("file", Unsigned),
        ("path", Text),
        ("path_source", Text),
        ("type", Text),
        ("fs_dev", Text),
        ("ino", Unsigned),
        ("size", Unsigned),
        ("flags", Unsigned),
        ("opened_before", Text),
    ],
};

/// Input that could not become an operation, and what was lost.
pub(super) const ANOMALIES: TableSchema = TableSchema {
    name: "anomalies",
    columns: &[
        ("recording", Unsigned),
        ("what", Text),
        ("time", WallTime),
        ("start_ns", Signed),
        ("cpu", Unsigned),
        ("pid", Signed),
        ("tid", Signed),
        ("count", Unsigned),
        ("detail", Text),
    ],
};

/// All tables.
pub(super) const TABLES: [TableSchema; 6] =
    [OPERATIONS, REQUESTS, PIECES, PROCESSES, FILES, ANOMALIES];
