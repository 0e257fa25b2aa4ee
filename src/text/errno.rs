//! Error numbers by name.

use std::fmt;

use nix::errno::Errno;

/// Shows an error number (positive) by its name; `E999` for one that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrnoName(pub i32);

/// Numbers that the kernel uses only internally (`include/linux/errno.h`). Tracepoints show them
/// nevertheless: a call that a signal interrupted leaves the kernel with one of the first, and
/// drivers leak others.
const INTERNAL: &[(i32, &str)] = &[
    (512, "ERESTARTSYS"),
    (513, "ERESTARTNOINTR"),
    (514, "ERESTARTNOHAND"),
    (515, "ENOIOCTLCMD"),
    (516, "ERESTART_RESTARTBLOCK"),
    (517, "EPROBE_DEFER"),
    (518, "EOPENSTALE"),
    (519, "ENOPARAM"),
    (521, "EBADHANDLE"),
    (522, "ENOTSYNC"),
    (523, "EBADCOOKIE"),
    (524, "ENOTSUPP"),
    (525, "ETOOSMALL"),
    (526, "ESERVERFAULT"),
    (527, "EBADTYPE"),
    (528, "EJUKEBOX"),
    (529, "EIOCBQUEUED"),
    (530, "ERECALLCONFLICT"),
];

impl fmt::Display for ErrnoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Errno::from_raw(self.0);
        if known != Errno::UnknownErrno {
            return write!(f, "{known:?}");
        }
        match INTERNAL.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "E{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ErrnoName;

    #[test]
    fn every_number_of_the_headers_has_its_name() {
        // 41 and 58 were never assigned (`include/uapi/asm-generic/errno.h`).
        let nameless: Vec<i32> = (1..=133)
            .filter(|&number| ErrnoName(number).to_string() == format!("E{number}"))
            .collect();
        assert_eq!(nameless, [41, 58]);
        for (number, name) in [
            (1, "EPERM"),
            (2, "ENOENT"),
            (5, "EIO"),
            (11, "EAGAIN"),
            (28, "ENOSPC"),
            (133, "EHWPOISON"),
        ] {
            assert_eq!(ErrnoName(number).to_string(), name);
        }
    }

    #[test]
    fn unknown_errors_are_shown_as_numbers() {
        assert_eq!(ErrnoName(512).to_string(), "ERESTARTSYS");
        assert_eq!(ErrnoName(999).to_string(), "E999");
        assert_eq!(ErrnoName(0).to_string(), "E0");
    }
}
