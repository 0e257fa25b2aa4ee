//! Storage of the logs.

/// Storage of the logs, one for each job.
pub trait Logs {
    /// Appends lines to the log of a job.
    ///
    /// # Errors
    ///
    /// The lines cannot be written.
    fn append(&mut self, job: usize, lines: &[u8]) -> std::io::Result<()>;

    /// Removes the log of a job that has nothing for fio.
    ///
    /// # Errors
    ///
    /// The log cannot be removed.
    fn remove(&mut self, job: usize) -> std::io::Result<()>;
}
