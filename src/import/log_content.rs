//! Kinds of events that an imported log has.

/// Kinds of events of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogContent {
    /// System calls, and the tasks that make them.
    #[default]
    Calls,
    /// Block requests.
    Requests,
    /// Calls, tasks and block requests.
    Both,
}

impl LogContent {
    /// Returns true if the log may have system calls.
    pub fn has_calls(self) -> bool {
        self != Self::Requests
    }

    /// Returns true if the log may have block requests.
    pub fn has_requests(self) -> bool {
        self != Self::Calls
    }
}
