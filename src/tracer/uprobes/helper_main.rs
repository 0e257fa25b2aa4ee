//! Helper process that searches code: opens the files of a question, gives up its privileges,
//! searches their code, and answers.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::protocol::{self, BinaryRequest, SITES_MAX, SiteReply, SitesQuestion};
use crate::event::syscall_table::CallId;
use crate::probe_sites;
use crate::sys::regular;
use crate::sys::sandboxed_helper::{self, ResourceLimits};

/// Hidden subcommand that starts this program as the helper that searches code.
pub const VERB: &str = "find-sites";

/// Largest size of a file that is searched: reading the code of larger files takes seconds.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Bytes at the beginning of a program that hold its headers.
const HEAD_BYTES: usize = 4096;

/// Limits of one question. All libraries of a machine take less than a second.
pub(super) const BOUNDS: ResourceLimits = ResourceLimits {
    time: Duration::from_secs(20),
    cpu: Duration::from_secs(10),
    memory_bytes: 1 << 30,
    // One file at a time is mapped.
    address_bytes: 4 << 30,
    answer_bytes: 4 << 20,
};

/// Answers the question at standard input.
///
/// # Errors
///
/// The question is missing, the privileges cannot be given up, or the reader of the answer is gone.
pub fn answer() -> io::Result<()> {
    sandboxed_helper::limit(&BOUNDS)?;
    let (question, socket) = sandboxed_helper::received_question()?;
    let question = SitesQuestion::decode(&question);
    let SitesQuestion { pid, calls, files } =
        question.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let all = PathBuf::from(format!("/proc/{pid}/fd"));
    let opened: Vec<(Option<File>, bool)> =
        files.iter().map(|it| (open(&all, *it), it.only_static)).collect();
    sandboxed_helper::give_up_rights()?;
    let mut out = BufWriter::new(socket);
    for (number, (file, only_static)) in opened.into_iter().enumerate() {
        protocol::begin(&mut out, number)?;
        let reply = file.map_or(SiteReply::Closed, |it| look_through(&it, only_static, &calls));
        protocol::end(&mut out, &reply)?;
    }
    out.flush()
}

fn open(all: &Path, request: BinaryRequest) -> Option<File> {
    regular::open_regular(&all.join(request.fd.to_string()), true).map(|it| it.0)
}

/// Searches a file for probe sites.
fn look_through(file: &File, only_static: bool, calls: &[CallId]) -> SiteReply {
    match file.metadata() {
        Ok(about) if about.len() > FILE_BYTES_MAX => return SiteReply::TooLarge,
        Ok(about) if about.len() > 0 => {}
        _ => return SiteReply::NoCode,
    }
    let Ok(bytes) = sandboxed_helper::map(file) else { return SiteReply::Closed };
    let head = bytes.get(..HEAD_BYTES).unwrap_or(&bytes);
    if only_static && probe_sites::interpreter(head).is_some() {
        return SiteReply::Linked;
    }
    match probe_sites::find(&bytes, calls) {
        Ok(sites) if sites.sites.len() > SITES_MAX => SiteReply::TooMany,
        Ok(sites) => SiteReply::Read(sites),
        Err(_) => SiteReply::NoCode,
    }
}
