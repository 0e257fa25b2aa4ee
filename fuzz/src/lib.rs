//! What the targets share. `scripts/fuzz` builds and runs them.
//!
//! A target is a function from bytes to nothing: it must come back, soon, without a panic and with little memory, whatever the bytes
//! are. Where more is known of what comes out (it can be read back, it is one line, the books are balanced), the target says so.
//!
//! | Target | Bytes | Must hold besides |
//! |---|---|---|
//! | `format` | a `format` file, NUL, payload of a record | what is accepted prints back as it was |
//! | `record` | layout of perf's samples, records | times as differences can be undone |
//! | `page` | `events/header_page` or nothing, NUL, pages of a ring | continued times give the same entries |
//! | `event` | which log's formats, which tracepoint, payload | |
//! | `log` | a whole log | as `frames`, without the books |
//! | `frames` | which log's header, frames with their payloads ([`frames`]): whole ones are made of them | the steps keep their promises, the books are balanced, all lines are harmless |
//! | `otf2` | the same | (an archive is written into a temporary directory) |
//! | `names` | a path and the name of a thread | they come out of every form of output as they went in |
//! | `control` | lines of the control socket | what is understood is understood again when it is asked again |
//! | `code` | an ELF file | |
//! | `plan` | a plan of a replay, or what is in its frames ([`plans`]): whole ones are made of that | what is accepted can be told; nothing is done |
//! | `import` | which tool's, a log of another tool | what becomes of it is read as `log` |
//! | `unwind` | what was in a process's memory and on its stack, an ELF file | |
//!
//! A target makes its own first inputs of `tests/corpus` ([`seeds`]).

pub mod frames;
pub mod output;
pub mod plans;

use std::path::{Path, PathBuf};

/// If it was asked for, gives all that `make` tells to the directory `IOTRACE_SEEDS` and ends the process.
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

/// All files of the corpus with this ending, or of this name, below a directory, sorted by their paths.
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

/// A small program of this machine, for want of one in the corpus.
pub fn program() -> Vec<u8> {
    std::fs::read("/bin/true").unwrap_or_default()
}

/// The first integer, and what is behind it.
pub fn integer<const N: usize>(bytes: &[u8]) -> (u64, &[u8]) {
    let (first, rest) = bytes.split_at(bytes.len().min(N));
    (first.iter().rev().fold(0, |all, it| all << 8 | u64::from(*it)), rest)
}

/// What is before the first NUL, and what is behind it.
pub fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|it| *it == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}
