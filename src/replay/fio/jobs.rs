//! fio job files: one that creates the files in their initial lengths, and one that replays the
//! logs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::job::Job;
use super::names::FileName;

/// Jobs of one job file at most (`REAL_MAX_JOBS` in `fio.h`).
pub const JOBS_MAX: usize = 4096;

/// Bytes of a line of a job file at most: half of what fio reads (`OPT_LEN_MAX` in `parse.h`; 4096
/// before 3.21).
const LINE_BYTES_MAX: usize = 2048;

/// Different lengths of files at most: each length has a job of its own. With more of them, lengths
/// are rounded up.
const SIZES_MAX: usize = 1000;

/// Returns the job file that replays the logs.
pub fn replay_jobs<'a>(jobs: impl Iterator<Item = (usize, &'a Job)>) -> String {
    let mut text = String::from(
        "; One job for each thread of the capture that reads or writes files.\n\
         ; As fast as possible: replay_no_stall=1. Twice as fast as in the capture: replay_time_scale=200.\n\
         [global]\nioengine=psync\n",
    );
    for (number, job) in jobs {
        let comm: String = job.comm.iter().map(|it| harmless(*it)).collect();
        // Writing to memory cannot fail.
        let _ = write!(text, "\n[{number}-{comm}-{}]\nread_iolog=logs/{number}.log\n", job.tid);
        let data = job.operations[0] + job.operations[1];
        if job.direct == data {
            text.push_str("direct=1\n");
        }
        if job.sync[0] == data {
            text.push_str(if job.sync[1] == data { "sync=dsync\n" } else { "sync=sync\n" });
        }
    }
    text
}

/// Replaces a byte that has a meaning in the name of a job.
fn harmless(byte: u8) -> char {
    if byte.is_ascii_alphanumeric() || b"_-+.@".contains(&byte) { byte.into() } else { '_' }
}

/// Returns the job file that creates the files; empty ones exist already. fio has no jobs for files
/// that are shorter than a block is to be read, and writes them in the blocks that are to be
/// written.
pub fn prepare_jobs(files: &[FileName]) -> String {
    let mut text = String::from(
        "; Creates the files with the lengths that they need before the replay.\n[global]\nioengine=psync\nrw=read\ncreate_only=1\nbs=1,64k\n",
    );
    let mut round = 1;
    let mut sizes = by_size(files, round);
    while sizes.len() > SIZES_MAX {
        round = (round * 2).max(4096);
        sizes = by_size(files, round);
    }
    let mut number = 0;
    for (size, names) in sizes {
        let mut line = String::new();
        for name in names {
            if line.len() + name.len() > LINE_BYTES_MAX && !line.is_empty() {
                job(&mut text, &mut number, size, &line);
                line.clear();
            }
            if !line.is_empty() {
                line.push(':');
            }
            line.push_str(&name);
        }
        job(&mut text, &mut number, size, &line);
    }
    text
}

fn job(text: &mut String, number: &mut u32, size: u64, names: &str) {
    // Writing to memory cannot fail.
    let _ = write!(text, "\n[{number}]\nfilesize={size}\nfilename={names}\n");
    *number += 1;
}

/// Groups the names of files by length, rounded up to multiples of `round`.
fn by_size(files: &[FileName], round: u64) -> BTreeMap<u64, Vec<String>> {
    let mut sizes: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for it in files.iter().filter(|it| it.size() > 0) {
        let size = it.size().checked_next_multiple_of(round).unwrap_or(it.size());
        sizes.entry(size).or_default().push(String::from_utf8_lossy(&it.name).into_owned());
    }
    sizes
}
