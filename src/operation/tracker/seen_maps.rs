//! Memory maps of processes as they were read.

use crate::units::{KernelTime, Pid};

/// Contents of `/proc/PID/maps`, until their time comes.
#[derive(Debug)]
pub(super) struct SeenMaps {
    /// Begin of the read: later calls are applied to the contents again.
    pub(super) begin: KernelTime,
    pub(super) pid: Pid,
    pub(super) text: Vec<u8>,
}
