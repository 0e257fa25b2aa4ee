//! The helper: opens the files that it is asked about, gives up its rights, reads their headers, and answers.
//!
//! The open may be where a file system does not answer, so each file is announced before its open and before its read: the process that
//! asks knows which file was at hand.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use super::headers;
use super::question::{self, Question, Said};
use crate::sys::helper::{self, Bounds};
use crate::sys::regular;

/// What one question may take. The headers of all programs of a machine are read in less than a second.
pub(super) const BOUNDS: Bounds = Bounds {
    time: Duration::from_secs(5),
    cpu: Duration::from_secs(5),
    memory_bytes: 256 << 20,
    address_bytes: 4 << 30,
    answer_bytes: 4 << 20,
};

/// Answers the question that stands at standard input.
///
/// # Errors
///
/// There is no question, the rights cannot be given up, the reader of the answer is gone.
pub fn answer() -> io::Result<()> {
    helper::limit(&BOUNDS)?;
    let (question, socket) = helper::asked()?;
    let question = Question::decode(&question);
    let Question { paths } = question.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let mut out = BufWriter::new(socket);
    let mut opened = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        question::at_hand(&mut out, number)?;
        opened.push(open(path));
    }
    helper::give_up_rights()?;
    for (number, file) in opened.into_iter().enumerate() {
        question::at_hand(&mut out, number)?;
        let said = file.and_then(|it| match headers::read(&it) {
            Ok(Some(headers)) => Ok(Said::Read(headers)),
            Ok(None) => Err(Said::Other),
            Err(_) => Err(Said::Closed),
        });
        question::say(&mut out, number, &said.unwrap_or_else(|it| it))?;
    }
    out.flush()
}

/// Opens a regular file of a file system that is not the kernel's own, and nothing else. Its time of access stays.
fn open(path: &Path) -> Result<File, Said> {
    let Some((place, _)) = regular::find_regular(path, true) else {
        let is_gone = path.symlink_metadata().is_err_and(|it| it.kind() == io::ErrorKind::NotFound);
        return Err(if is_gone { Said::Gone } else { Said::NotRegular });
    };
    let opened = regular::open_found(&place, libc::O_NOATIME);
    opened.or_else(|_| regular::open_found(&place, 0)).map_err(|_| Said::Closed)
}
