//! Environment of a recording, as far as it determines the available sources of file names.

use super::options::Follow;
use super::tracepoint_plan::SourceKind;
use crate::event::syscall_table::CallId;
use crate::sys::tracefs::Tracefs;

/// Environment that determines the available sources.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// Tracefs, which describes the tracepoints.
    pub tracefs: &'a Tracefs,
    /// Source of samples.
    pub source: SourceKind,
    /// `uname -m`.
    pub machine: &'a str,
    /// Name of the tracer's own threads.
    pub own_name: &'a str,
    /// Recorded system calls.
    pub calls: &'a [CallId],
    /// Processes to follow.
    pub follow: &'a Follow,
    /// The launched command; empty if there is none.
    pub command: &'a [String],
    /// True if a validation of probes that was passed since the machine started is not repeated.
    pub recalls: bool,
}
