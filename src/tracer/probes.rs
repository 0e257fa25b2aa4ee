//! Probes inside the kernel that tell the names of files: where the kernel copies a path out of a program's memory, and
//! where it gives a descriptor its file.
//!
//! Which function does that, and whether the compiler has put copies of it elsewhere, differs from kernel to kernel. So
//! nothing is assumed: probes are made, a thread of ours makes calls whose paths are known, and what comes out of the
//! ring is compared with them. The first definition that shows all is taken, else the one that shows most.

use std::io;

use super::bench::Bench;
use super::btf::Btf;
use crate::event::probed::{FILE_PREFIX, PATH_PREFIX};
use crate::event::syscall_table::CallId;
use crate::sys::instance::Instance;
use crate::sys::probe_events::{At, Kind, ProbeGroup};
use crate::sys::tracefs::Tracefs;

/// Where the kernel describes its own types.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Where the kernel gives a descriptor its file: number and `struct file` are the arguments.
const FILE_FUNCTION: &str = "fd_install";

/// Functions that see paths, best first. Those at the return are all that copy one, with what the compiler makes of
/// them; those at the entry see only what is opened, as their second argument.
const PATH_FUNCTIONS: &[(At, &[&str])] = &[
    // Linux 5.4 to 6.19: the part that copies is split off, and its callers call it without the rest.
    (At::Return, &["getname_flags.part.0"]),
    // From 7.0 on.
    (At::Return, &["do_getname"]),
    (At::Return, &["getname_flags.isra.0"]),
    (At::Return, &["getname_flags.constprop.0"]),
    (At::Return, &["getname_flags"]),
    (At::Return, &["getname_flags", "getname"]),
    (At::Entry, &["do_filp_open"]),
    (At::Entry, &["do_file_open"]),
];

/// Probes that are made, and an instance that says that their tracer lives.
#[derive(Debug)]
pub struct Probes {
    group: ProbeGroup,
    /// What they have shown of calls whose paths were known.
    pub covers: Covers,
    /// What they see, in words.
    pub reason: String,
    _lock: Instance,
}

/// What probes show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covers {
    /// Where the paths are from.
    pub functions: Vec<&'static str>,
    /// Calls whose paths they have shown, whole and at the right address.
    pub shown: Vec<&'static str>,
    /// Calls whose paths they have not shown.
    pub hidden: Vec<&'static str>,
    /// They show what a new descriptor's file is: without it, positions are not known.
    pub files: bool,
}

impl Covers {
    /// Every call of the trial.
    pub fn paths(&self) -> bool {
        self.hidden.is_empty() && !self.shown.is_empty()
    }

    /// Every call with a path, and what files are.
    pub fn everything(&self) -> bool {
        self.paths() && self.files
    }

    /// In words.
    pub fn text(&self) -> String {
        let paths = match (self.shown.as_slice(), self.hidden.as_slice()) {
            ([], _) => "no paths".to_owned(),
            (_, []) => "the paths of all calls".to_owned(),
            (shown, _) => format!("the paths of {} only", shown.join(", ")),
        };
        let files = if self.files {
            format!("what files are by {FILE_FUNCTION}")
        } else {
            "not what files are, so offsets are not known".to_owned()
        };
        format!("{paths} by {}, {files}", self.functions.join(" and "))
    }
}

/// The fields of probes that need to know where members of structures are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fields {
    /// The path and where the program had it; at a return the structure is what is returned, at an entry the second
    /// argument.
    path: [String; 2],
    /// Of a descriptor and its file.
    file: Option<String>,
}

impl Fields {
    /// By the kernel's types, as far as it has them.
    fn of(btf: Option<&Btf<'_>>) -> Self {
        let at = |structure: &str, member: &str| Some(btf?.member(structure, member)?.offset);
        // Without types: the name is the first member, and the trial shows whether that is right.
        let name = at("filename", "name").or_else(|| at("__filename_head", "name")).unwrap_or(0);
        let address = |copy: &str, argument: &str| match at("filename", "uptr") {
            Some(offset) => format!(" address=+{offset}({copy}):x64"),
            None => argument.to_owned(),
        };
        let path = |copy: &str, argument: &str| {
            format!("name=+0(+{name}({copy})):string copy={copy}:x64{}", address(copy, argument))
        };
        // At a return newer kernels know the arguments, too. At an entry the program's address is not among them.
        let path = [path("$retval", " address=$arg1:x64"), path("$arg2", "")];
        let number = |structure: &str, member: &str| {
            let found = btf?.member(structure, member).filter(|it| it.bytes > 0)?;
            Some((found.offset, 8 * found.bytes))
        };
        let file = || {
            let (inode, _) = number("file", "f_inode")?;
            let (mode, mode_bits) = number("inode", "i_mode")?;
            let (ino, ino_bits) = number("inode", "i_ino")?;
            let (size, size_bits) = number("inode", "i_size")?;
            let (system, _) = number("inode", "i_sb")?;
            let (dev, dev_bits) = number("super_block", "s_dev")?;
            let inode = format!("+{inode}($arg2)");
            Some(format!(
                "fd=$arg1:s32 mode=+{mode}({inode}):u{mode_bits} ino=+{ino}({inode}):u{ino_bits} \
                 dev=+{dev}(+{system}({inode})):u{dev_bits} size=+{size}({inode}):u{size_bits}"
            ))
        };
        Self { path, file: file() }
    }

    fn path(&self, at: At) -> &str {
        let [at_return, at_entry] = &self.path;
        if at == At::Return { at_return } else { at_entry }
    }
}

impl Probes {
    /// Probes that are made.
    pub(super) fn new(group: ProbeGroup, reason: String, covers: Covers, lock: Instance) -> Self {
        Self { group, covers, reason, _lock: lock }
    }

    /// Makes the best that this kernel allows. `machine` as `uname -m` says, `own_name` is that of our threads.
    ///
    /// # Errors
    ///
    /// Why there are none, in words.
    pub fn find(tracefs: &Tracefs, machine: &str, own_name: &str) -> Result<Self, String> {
        let mut group = ProbeGroup::new(tracefs, Kind::Kernel).map_err(|it| it.to_string())?;
        let lock = Instance::create(tracefs, "probes").map_err(|it| it.to_string())?;
        let types = std::fs::read(BTF).unwrap_or_default();
        let fields = Fields::of(Btf::parse(&types).as_ref());
        let calls: Vec<CallId> = CallId::all().collect();
        let bench = Bench { tracefs, machine, own_name, instance: &lock, calls: &calls };
        let mut best: Option<(At, Covers)> = None;
        let mut refused = String::new();
        for &(at, functions) in PATH_FUNCTIONS {
            let covers = match define(&mut group, at, functions, &fields) {
                Ok(()) => bench
                    .try_out_twice(&group, functions, Covers::everything)
                    .map_err(|it| it.to_string())?,
                Err(why) => {
                    refused = why.to_string();
                    group.clear();
                    continue;
                }
            };
            if covers.everything() {
                return Ok(Self::new(group, covers.text(), covers, lock));
            }
            group.clear();
            if best.as_ref().is_none_or(|it| it.1.shown.len() < covers.shown.len()) {
                best = Some((at, covers));
            }
        }
        match best.filter(|it| !it.1.shown.is_empty()) {
            Some((at, covers)) => {
                define(&mut group, at, &covers.functions, &fields).map_err(|it| it.to_string())?;
                Ok(Self::new(group, covers.text(), covers, lock))
            }
            None if refused.is_empty() => {
                Err("probes could be made on this kernel, but showed none of the paths of a trial"
                    .to_owned())
            }
            None => Err(format!(
                "none of the functions that see paths can be probed on this kernel ({refused})"
            )),
        }
    }

    /// Their system, and the names of all of them.
    pub fn tracepoints(&self) -> impl Iterator<Item = (&str, &str)> {
        self.group.events().iter().map(|it| (self.group.name(), it.as_str()))
    }

    /// Threads that found no place inside a probed function: the names of their calls are not there.
    pub(super) fn missed_names(&self) -> Option<String> {
        match self.missed() {
            Ok(0) => None,
            Ok(missed) => Some(format!(
                "kprobes were missed {missed} times, by whichever program: at most so many names are not known"
            )),
            Err(error) => Some(format!("whether kprobes were missed is not known: {error}")),
        }
    }

    /// How many hits the kernel has missed.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    pub fn missed(&self) -> io::Result<u64> {
        self.group.missed()
    }
}

/// Makes the probes of these functions; that of files too, if it can be.
fn define(group: &mut ProbeGroup, at: At, functions: &[&str], fields: &Fields) -> io::Result<()> {
    for (number, function) in functions.iter().enumerate() {
        group.define(at, &format!("{PATH_PREFIX}{number}"), function, fields.path(at))?;
    }
    if let Some(file) = &fields.file {
        // Without it positions are not known, and the trial tells.
        let _ = group.define(At::Entry, FILE_PREFIX, FILE_FUNCTION, file);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_types_only_paths_are_fetched() {
        let fields = Fields::of(None);
        let expected = "name=+0(+0($retval)):string copy=$retval:x64 address=$arg1:x64";
        assert_eq!(fields.path(At::Return), expected);
        assert_eq!(fields.path(At::Entry), "name=+0(+0($arg2)):string copy=$arg2:x64");
        assert_eq!(fields.file, None);
    }

    #[test]
    fn what_is_covered_is_told() {
        let mut covers = Covers {
            functions: vec!["do_getname"],
            shown: vec!["open", "rename"],
            hidden: Vec::new(),
            files: true,
        };
        assert!(covers.everything());
        let expected = "the paths of all calls by do_getname, what files are by fd_install";
        assert_eq!(covers.text(), expected);
        covers = Covers { hidden: vec!["link"], files: false, ..covers };
        assert!(!covers.everything());
        let expected = "the paths of open, rename only by do_getname, not what files are, so offsets are not known";
        assert_eq!(covers.text(), expected);
        assert!(!Covers::default().everything());
    }
}
