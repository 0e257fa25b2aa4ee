//! Common parts of the fuzz targets. `scripts/fuzz` builds and runs them.
//!
//! A target is a function from any bytes to nothing: it must return soon, without a panic and with
//! little memory. Some targets also check the result: that it can be read back, that it is one
//! line, or that the counters balance.
//!
//! | Target | Bytes | Further checks |
//! |---|---|---|
//! | `format` | a `format` file, NUL, payload of a record | accepted input prints unchanged |
//! | `record` | layout of perf's samples, records | times as differences can be undone |
//! | `page` | `events/header_page` or nothing, NUL, ring pages | continued times: same entries |
//! | `event` | number of a log, of a tracepoint, payload | |
//! | `log` | a complete log | as `frames`, without the counters |
//! | `frames` | number of a log, frames with payloads ([`frames`]) | see below |
//! | `otf2` | as `frames` | (an archive is written into a temporary directory) |
//! | `names` | a path and the name of a thread | every format of output preserves them |
//! | `control` | lines of the control socket | a parsed line is parsed equally again |
//! | `code` | an ELF file | |
//! | `plan` | a plan, or payloads of its frames ([`plans`]) | accepted plans can be printed |
//! | `import` | number of a tool, a log of that tool | the result is read as `log` |
//! | `unwind` | memory and stack of a process, an ELF file | |
//!
//! The bytes of `frames` and `plan` become complete frames. `frames` checks that the steps keep
//! their promises, the counters balance, and all lines are harmless. `plan` executes nothing.
//!
//! A target creates its own seeds from `tests/corpus` ([`seeds`]).

pub mod frames;
pub mod output;
pub mod plans;

use std::path::{Path, PathBuf};

/// If `IOTRACE_SEEDS` is set, writes all seeds of `make` to that directory and ends the process.
pub fn seeds(make: impl FnOnce(&mut dyn FnMut(&[u8]))) {
    let Some(directory) = std::env::var_os("IOTRACE_SEEDS") else { return };
    let mut number = 0;
    make(&mut |seed| {
        let path = Path::new(&directory).join(format!("seed-{number:05}"));
        std::fs::write(&path, seed).unwrap_or_else(|it| panic!("{}: {it}", path.display()));
        number += 1;
    });
    std::process::exit(0);
}

/// Files of the corpus with this extension, or of this name, below a directory, sorted by their
/// paths.
pub fn corpus(below: &str, ending: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus");
    let mut directories = vec![corpus.join(below)];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory).expect("the corpus").flatten();
        let (inner, files): (Vec<PathBuf>, _) =
            entries.map(|it| it.path()).partition(|it| it.is_dir());
        directories.extend(inner);
        found.extend(files.into_iter().filter(|it| it.to_string_lossy().ends_with(ending)));
    }
    found.sort();
    found.iter().map(|it| std::fs::read(it).expect("a file of the corpus")).collect()
}

/// A small program of this machine, as the corpus has none.
pub fn program() -> Vec<u8> {
    std::fs::read("/bin/true").unwrap_or_default()
}

/// Splits the first integer off.
pub fn integer<const N: usize>(bytes: &[u8]) -> (u64, &[u8]) {
    let (first, rest) = bytes.split_at(bytes.len().min(N));
    (first.iter().rev().fold(0, |all, it| all << 8 | u64::from(*it)), rest)
}

/// Splits the bytes at the first NUL.
pub fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|it| *it == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}
