//! Operations of ioriot: the call of each, and the meanings of its letters.
//!
//! Letters are those of its capture logs (`doc/markdown/usage.md` of ioriot, and what its probes
//! print): `d` descriptor, `p` and `P` paths, `f` flags, `m` mode, `b` bytes, `c` count, `s`
//! result, `O` offset or owner, `W` whence, `F` command, `G` its argument or a group, `a` and `A`
//! addresses. Replay logs have the same values without letters, in a fixed order.

use Arg::{At, Key, Moved, Pages, Path, Vector, Zero};

/// Source of a register's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arg {
    /// The number of this letter.
    Key(u8),
    /// The path of this letter.
    Path(u8),
    /// `AT_FDCWD`: all paths begin at the root.
    At,
    /// The number of moved bytes; the requested size is not logged.
    Moved,
    /// A vector with that number of bytes, and its length.
    Vector,
    /// The number of this letter, in pages.
    Pages(u8),
    /// 0: the log has no value.
    Zero,
}

/// An operation.
#[derive(Debug)]
pub(super) struct IoriotRow {
    /// Name in ioriot.
    pub(super) name: &'static str,
    /// Name in our table of calls.
    pub(super) call: &'static str,
    pub(super) args: &'static [Arg],
    /// Letter of the result.
    pub(super) result: u8,
    /// Order of its letters in a replay log.
    pub(super) order: &'static [u8],
}

const fn row(
    name: &'static str,
    call: &'static str,
    args: &'static [Arg],
    result: u8,
    order: &'static [u8],
) -> IoriotRow {
    IoriotRow { name, call, args, result, order }
}

const D: Arg = Key(b'd');
const P: Arg = Path(b'p');
const M: Arg = Key(b'm');
const F: Arg = Key(b'f');
const O: Arg = Key(b'O');
const G: Arg = Key(b'G');

#[rustfmt::skip]
pub(super) static ROWS: &[IoriotRow] = &[
    row("open",            "open",            &[P, F, M],                   b'd', b"dpmf"),
    row("openat",          "openat",          &[At, P, F, M],               b'd', b"dpmf"),
    row("creat",           "creat",           &[P, M],                      b'd', b"dpmf"),
    row("close",           "close",           &[D],                         b's', b"ds"),
    row("close on exit_group", "close",       &[D],                         b's', b"ds"),
    row("read",            "read",            &[D, Zero, Moved],            b'b', b"db"),
    row("readv",           "readv",           &[D, Vector],                 b'b', b"db"),
    row("write",           "write",           &[D, Zero, Moved],            b'b', b"db"),
    row("writev",          "writev",          &[D, Vector],                 b'b', b"db"),
    row("lseek",           "lseek",           &[D, O, Key(b'W')],           b'b', b"dOWb"),
    row("llseek",          "lseek",           &[D, O, Key(b'W')],           b'b', b"dOWb"),
    row("fcntl",           "fcntl",           &[D, Key(b'F'), G],           b's', b"dFGs"),
    row("getdents",        "getdents",        &[D, Zero, Key(b'c')],        b'b', b"dcb"),
    row("readahead",       "readahead",       &[D, O, Key(b'c')],           b'b', b"dOc"),
    row("readlink",        "readlink",        &[P, Zero, Moved],            b's', b"ps"),
    row("readlinkat",      "readlinkat",      &[At, P, Zero, Moved],        b's', b"ps"),
    row("stat",            "newstat",         &[P],                         b's', b"ps"),
    row("lstat",           "newlstat",        &[P],                         b's', b"ps"),
    row("fstat",           "newfstat",        &[D],                         b's', b"ds"),
    row("fstatat",         "newfstatat",      &[At, P, Zero, F],            b's', b"ps"),
    row("statfs",          "statfs",          &[P],                         b's', b"ps"),
    row("statfs64",        "statfs",          &[P],                         b's', b"ps"),
    row("fstatfs",         "fstatfs",         &[D],                         b's', b"ds"),
    row("fstatfs64",       "fstatfs",         &[D],                         b's', b"ds"),
    row("rename",          "rename",          &[P, Path(b'P')],             b's', b"pPs"),
    row("renameat",        "renameat",        &[At, P, At, Path(b'P')],     b's', b"pPs"),
    row("renameat2",       "renameat2",       &[At, P, At, Path(b'P')],     b's', b"pPs"),
    row("mkdir",           "mkdir",           &[P, M],                      b's', b"pms"),
    row("mkdirat",         "mkdirat",         &[At, P, M],                  b's', b"pms"),
    row("rmdir",           "rmdir",           &[P],                         b's', b"ps"),
    row("unlink",          "unlink",          &[P],                         b's', b"ps"),
    row("unlinkat",        "unlinkat",        &[At, P, F],                  b's', b"ps"),
    row("fsync",           "fsync",           &[D],                         b's', b"ds"),
    row("fdatasync",       "fdatasync",       &[D],                         b's', b"ds"),
    row("sync",            "sync",            &[],                          b's', b"s"),
    row("syncfs",          "syncfs",          &[D],                         b's', b"ds"),
    row("sync_file_range", "sync_file_range", &[D, O, Key(b'b')],           b's', b"dObs"),
    row("chmod",           "chmod",           &[P, M],                      b's', b"pms"),
    row("fchmodat",        "fchmodat",        &[At, P, M],                  b's', b"pms"),
    row("fchmod",          "fchmod",          &[D, M],                      b's', b"dms"),
    row("chown",           "chown",           &[P, O, G],                   b's', b"pOGs"),
    row("chown16",         "chown",           &[P, O, G],                   b's', b"pOGs"),
    row("lchown",          "lchown",          &[P, O, G],                   b's', b"pOGs"),
    row("lchown16",        "lchown",          &[P, O, G],                   b's', b"pOGs"),
    row("fchown",          "fchown",          &[D, O, G],                   b's', b"dOGs"),
    row("fchown16",        "fchown",          &[D, O, G],                   b's', b"dOGs"),
    row("fchownat",        "fchownat",        &[At, P, O, G, F],            b's', b"pOGs"),
    row("mmap2",           "mmap",            &[Key(b'a'), Key(b'b'), M, F, D, Pages(b'O')], b'A', b""),
    row("mremap",          "mremap",          &[Key(b'A'), Zero, Key(b'b'), F, Key(b'a')],   b's', b""),
    row("munmap",          "munmap",          &[Key(b'a'), Key(b'b')],      b's', b""),
    row("msync",           "msync",           &[Key(b'a'), Key(b'b'), F],   b's', b""),
];

/// Finds an operation by name.
pub(super) fn find(name: &[u8]) -> Option<&'static IoriotRow> {
    ROWS.iter().find(|row| row.name.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CallId;

    #[test]
    fn rows_are_rows_of_the_one_table() {
        for row in ROWS {
            let call = CallId::by_name(row.call).expect(row.call).call();
            let has_path = row.args.iter().any(|arg| matches!(arg, Path(_)));
            assert_eq!(call.has_path(), has_path, "{}", row.name);
            assert!(
                row.order.is_empty() || row.order.contains(&row.result) || row.name == "readahead",
                "{}",
                row.name
            );
        }
    }
}
