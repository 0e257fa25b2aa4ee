//! Arguments of `files`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Args as ClapArgs;

use super::args::GroupedArgs;
use super::error::CliError;
use crate::analysis::biography::LifeTarget;
use crate::units::DevId;

/// Arguments of `files`.
#[derive(Debug, ClapArgs)]
pub(super) struct FilesArgs {
    #[command(flatten)]
    pub(super) grouped: GroupedArgs,
    /// Only the life of this file: birth, names, accesses, removal, and the bytes that never
    /// reached the disk. A path that the file had at any time, or MAJOR:MINOR:INODE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) life: Option<OsString>,
}

/// Returns the files that a word names: a path from the root or the working directory, or a device
/// and an inode.
///
/// # Errors
///
/// An empty word.
pub(super) fn life_target(word: &OsStr) -> Result<LifeTarget, CliError> {
    if let Some(inode) = word.to_str().and_then(inode) {
        return Ok(inode);
    }
    let path = std::path::absolute(word).map_err(|error| {
        CliError::Usage(format!(
            "--life {}: {error}; give a path, or MAJOR:MINOR:INODE as files --json prints them",
            word.display()
        ))
    })?;
    Ok(LifeTarget::Path(path.as_os_str().as_bytes().to_vec()))
}

fn inode(word: &str) -> Option<LifeTarget> {
    let (dev, ino) = word.rsplit_once(':')?;
    Some(LifeTarget::Inode((DevId::parse(dev)?, ino.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: LifeTarget) {
        assert_eq!(life_target(OsStr::new(word)).expect(word), expected);
    }

    #[test]
    fn words_name_paths_and_inodes() {
        check("8:1:12", LifeTarget::Inode((DevId::new(8, 1), 12)));
        check("/a:b", LifeTarget::Path(b"/a:b".to_vec()));
        let here = std::env::current_dir().expect("a directory").join("a");
        check("a", LifeTarget::Path(here.as_os_str().as_bytes().to_vec()));
        assert!(life_target(OsStr::new("")).is_err());
    }
}
