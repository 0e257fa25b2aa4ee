//! Kernel boundary of replays: captured calls made once more, the root directory that confines
//! them, and block devices. Only `replay::execute` and the command line use it.

pub mod block_device;
pub mod device_users;
pub mod drop_caches;
pub mod reflink;
pub mod reissue;
pub mod sandbox;
pub mod tsc;
