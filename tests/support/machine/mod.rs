//! Requirements of tests, devices, file systems and servers that they make, and their turns on
//! the machine.

pub(crate) mod block_stack;
pub(crate) mod cpu_hog;
pub(crate) mod job_hosts;
pub(crate) mod loop_device;
pub(crate) mod mount;
pub(crate) mod postgres;
pub(crate) mod requirements;
pub(crate) mod subreaper;
pub(crate) mod turns;
