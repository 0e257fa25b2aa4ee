//! Export to fio: one log for each thread that reads or writes, and the jobs that replay the logs.
//!
//! ```text
//!   Step ─► FioExport ─┬─ ExportNames  names of the files for fio
//!                      ├─ Job          one thread: its log, line by line
//!                      └─► Logs        storage of the logs
//! ```
//!
//! The logs have fio's version 3 (`HOWTO.rst`, "Trace file format v3"; `read_iolog()` in
//! `iolog.c`): `TIME FILE add|open|close` and `TIME FILE read|write|sync|datasync OFFSET LENGTH`,
//! times in µs. Three facts are not in its manual, but in its code:
//!
//! - Files are looked up by the whole name that they were added under (`get_fileno()`), so
//!   `directory=` cannot be used. Instead names begin with the directory of the file, and no name
//!   leads out of that directory.
//! - Lines after a time of 0 are not delayed (`delay_since_ttime()`), so times begin at 1.
//! - A read that gets fewer bytes than its line requests ends the job. So lines have the bytes that
//!   calls got, and files are as long as the furthest read.

mod export;
mod job;
mod jobs;
mod logs;
mod names;
mod not_exported;

pub use export::FioExport;
pub use job::{Job, JobDirection};
pub use jobs::{JOBS_MAX, prepare_jobs, replay_jobs};
pub use logs::Logs;
pub use names::{DIRECTORIES, FileName, NAME_BYTES_MAX};
pub use not_exported::NotExported;
