//! Helper process that reads headers: opens the files of a question, gives up its privileges, reads
//! their headers, and answers.
//!
//! An open may block if a file system does not respond. So each file is announced before its open
//! and before its read, and the asking process knows which file was being processed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use super::headers;
use super::protocol::{self, HeaderReply, HeadersQuestion};
use crate::sys::regular;
use crate::sys::sandboxed_helper::{self, ResourceLimits};

/// Limits of one question. The headers of all programs of a machine are read in less than a second.
pub(super) const BOUNDS: ResourceLimits = ResourceLimits {
    time: Duration::from_secs(5),
    cpu: Duration::from_secs(5),
    memory_bytes: 256 << 20,
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
    let question = HeadersQuestion::decode(&question);
    let HeadersQuestion { paths } =
        question.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let mut out = BufWriter::new(socket);
    let mut opened = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        protocol::at_hand(&mut out, number)?;
        opened.push(open(path));
    }
    sandboxed_helper::give_up_rights()?;
    for (number, file) in opened.into_iter().enumerate() {
        protocol::at_hand(&mut out, number)?;
        let reply = file.and_then(|file| match headers::read(&file) {
            Ok(Some(headers)) => Ok(HeaderReply::Read(headers)),
            Ok(None) => Err(HeaderReply::Other),
            Err(_) => Err(HeaderReply::Closed),
        });
        protocol::write_reply(&mut out, number, &reply.unwrap_or_else(|it| it))?;
    }
    out.flush()
}

/// Opens a regular file that is not in a file system of the kernel, and nothing else. Its access
/// time is not changed.
fn open(path: &Path) -> Result<File, HeaderReply> {
    let Some((place, _)) = regular::find_regular(path, true) else {
        let is_gone = path.symlink_metadata().is_err_and(|it| it.kind() == io::ErrorKind::NotFound);
        return Err(if is_gone { HeaderReply::Gone } else { HeaderReply::NotRegular });
    };
    let opened = regular::open_found(&place, libc::O_NOATIME);
    opened.or_else(|_| regular::open_found(&place, 0)).map_err(|_| HeaderReply::Closed)
}
