//! Columns and cells that name the file of a row.

use super::rows::{column, key_column, rest_of_keys};
use crate::analysis::summary::KeyParts;
use crate::operation::io_class::IoClass;
use crate::text::table::{Cell, Column};

/// Columns of a file, with this title.
pub(super) const fn file_columns(title: &'static str) -> [Column; 3] {
    [column("mounts", ""), column("unverified", ""), key_column(0, "path", title)]
}

/// Cells of a file: its mounts if they are not the tracer's, whether the path may be another
/// file's, and the path.
pub(super) fn file_cells(key: &[u8]) -> [Cell; 3] {
    let KeyParts { path, mounts, is_doubtful } = KeyParts::of(key);
    let path = match is_doubtful {
        true => Cell::Unverified(path.to_vec()),
        false => Cell::Name(path.to_vec()),
    };
    [Cell::count(mounts.map(|mount| mount.0.into())), Cell::Flag(is_doubtful), path]
}

/// Cells of files without a name.
pub(super) const NAMELESS: [Cell; 3] = [Cell::None, Cell::None, Cell::None];

/// Cells of the files that have no row of their own.
pub(super) fn other_files() -> [Cell; 3] {
    [Cell::None, Cell::None, rest_of_keys()]
}

/// Names of the row of operations without a known name.
pub(super) fn nameless_cells(io: IoClass) -> [Cell; 3] {
    let name = match io {
        IoClass::File => Cell::None,
        IoClass::Waiting => Cell::Word("(pipes, sockets and the like without a name)".to_owned()),
        IoClass::Unknown => Cell::Word("(descriptors of unknown type)".to_owned()),
        IoClass::Nothing => Cell::Word("(no I/O)".to_owned()),
    };
    [Cell::None, Cell::None, name]
}
