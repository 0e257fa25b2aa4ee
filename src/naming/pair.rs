//! Calls that make two descriptors (`pipe2`, `socketpair`): the numbers are stored in memory. If
//! the memory was not read in time, the files of the descriptors soon after the call show whether
//! they can be the two.

use super::read_name::ReadName;
use crate::capture::fact::NameOf;
use crate::event::syscall_table::{Call, Role};
use crate::event::{FileStat, Name, SysExit};
use crate::units::Fd;

/// Returns the two descriptors that a reader has read for a call that makes two.
pub(super) fn fds_of(read: &[ReadName], exit: &SysExit) -> Option<[u64; 2]> {
    let links = read.iter().filter(|it| it.of == NameOf::Link && exit.call.call().makes_pair());
    let fds: Vec<u64> = links.map(|it| it.address).collect();
    fds.as_slice().try_into().ok()
}

/// Returns the two descriptors that a call has made, from the links that were read soon after, if
/// both files are of the kind that the call makes.
pub fn looked_at(call: &Call, pair: &[(Fd, Name, Option<FileStat>)]) -> Option<[Fd; 2]> {
    let [(first, link, of_first), (second, other_link, of_second)] = pair else { return None };
    let is_pipe = call.arg(Role::Pair) == Some(0);
    let kind = if is_pipe { libc::S_IFIFO } else { libc::S_IFSOCK };
    let is_it = |stat: &Option<FileStat>| stat.is_some_and(|it| it.mode & libc::S_IFMT == kind);
    // Both ends of a pipe are one inode.
    let is_one = !is_pipe || link.bytes == other_link.bytes;
    let is_sure = link.verified && other_link.verified && first != second;
    (is_sure && is_one && is_it(of_first) && is_it(of_second)).then_some([*first, *second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CallId;
    use crate::units::DevId;

    #[track_caller]
    fn check(call: &str, ends: [(&str, u32); 2], verified: bool, expected: bool) {
        let call = CallId::by_name(call).expect("in the table").call();
        let one = |fd, (link, mode): (&str, u32)| {
            let stat = FileStat { mode, dev: DevId::default(), ino: 7, size: 0 };
            (Fd(fd), Name { bytes: link.into(), verified }, Some(stat))
        };
        let [first, second] = ends;
        let found = looked_at(call, &[one(3, first), one(5, second)]);
        assert_eq!(found, expected.then_some([Fd(3), Fd(5)]));
    }

    #[test]
    fn descriptor_pair_needs_two_matching_links() {
        let (pipe, other) = (("pipe:[7]", libc::S_IFIFO), ("pipe:[8]", libc::S_IFIFO));
        let sockets = [("socket:[7]", libc::S_IFSOCK), ("socket:[8]", libc::S_IFSOCK)];
        check("pipe2", [pipe, pipe], true, true);
        check("pipe2", [pipe, pipe], false, false);
        check("pipe2", [pipe, other], true, false);
        check("pipe2", [pipe, ("/a", libc::S_IFREG)], true, false);
        check("pipe", sockets, true, false);
        check("socketpair", sockets, true, true);
        check("socketpair", [pipe, pipe], true, false);
    }
}
