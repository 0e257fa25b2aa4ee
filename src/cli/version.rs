//! Text of `--version`: which source was built how, and what the program reads and writes.

use crate::capture::format::{MAJOR, MINOR};
use crate::replay::plan::plan_file::VERSION as PLAN;

/// Version of the package.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the lines of `--version`; `-V` has the first one only.
pub(super) fn long(commit: Option<&str>) -> String {
    let commit = commit.filter(|commit| !commit.is_empty());
    let commit = commit.unwrap_or("not stated at the build (IOTRACE_COMMIT)");
    format!(
        "iotrace-perf {VERSION}\n\
         commit   {commit}\n\
         build    {}\n\
         formats  capture log {MAJOR}.{MINOR}, replay plan {PLAN}\n\
         OTF2     {}\n",
        build(),
        otf2()
    )
}

/// Target, linking and profile of this build. There are no cargo features.
fn build() -> String {
    let linking = if otf2_sys::IS_STATIC { "static" } else { "dynamic" };
    let libc = if cfg!(target_env = "musl") { "musl" } else { "glibc" };
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!("{} with {libc}, {linking}, {profile}, no cargo features", std::env::consts::ARCH)
}

/// Library that would write an archive now.
fn otf2() -> String {
    match otf2_sys::library() {
        Ok(library) => format!("{}, version {}", library.name, library.major),
        Err(error) => format!("no archives: cannot {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_is_the_given_one_or_said_to_be_missing() {
        assert!(long(Some("099cfe56b9d3")).contains("\ncommit   099cfe56b9d3\n"));
        for missing in [None, Some("")] {
            assert!(long(missing).contains("\ncommit   not stated at the build"));
        }
    }

    #[test]
    fn lines_name_build_formats_and_library() {
        let text = long(None);
        let heads: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(heads, ["iotrace-perf", "commit", "build", "formats", "OTF2"]);
        assert!(text.contains(&format!("capture log {MAJOR}.{MINOR}")), "{text}");
    }
}
