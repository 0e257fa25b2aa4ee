//! Symbolic links that were there before the first operation, and their targets.
//!
//! A capture shows the length of a link's text (`readlink`), but not the text. An open shows two
//! paths: the one that it was given, and the kernel's path of its file. Where these differ, a link
//! is on the way ([`symlink_inference`]). Its text in the replay leads to the same target and is as
//! long as it was, if such a text exists. So operations that query the link get the same result.

mod link_text;
mod symlink_inference;
mod symlink_map;

pub use link_text::{TEXT_BYTES_MAX, text};
pub use symlink_inference::SymlinkEvidence;
pub use symlink_map::SymlinkMap;
