//! Probes inside the kernel that report file names: at functions that copy a path out of a
//! program's memory, and at the function that gives a descriptor its file.
//!
//! Function names, and copies that the compiler makes of a function, differ from kernel to kernel.
//! So nothing is assumed. Probes are created, a thread of the tracer makes calls with known paths,
//! and the samples are compared with these paths. The first definition that shows all paths is
//! taken, otherwise the one that shows most.

use std::io;

use super::btf::Btf;
use super::probe_coverage::{FILE_FUNCTION, ProbeCoverage};
use super::probe_validation::Bench;
use crate::event::probe_events::{FILE_PREFIX, PATH_PREFIX};
use crate::event::syscall_table::CallId;
use crate::sys::probe_events::{ProbeGroup, ProbeKind, ProbePosition};
use crate::sys::tracefs::Tracefs;
use crate::sys::tracefs_instance::Instance;
use crate::units::counted;

/// File in which the kernel describes its types.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Functions that see paths, best first. Probes at the return are attached to all functions that
/// copy a path, with the copies that the compiler makes of them. Probes at the entry see only
/// opened paths, as the second argument.
const PATH_FUNCTIONS: &[(ProbePosition, &[&str])] = &[
    // Linux 5.4 to 6.19: the part that copies is split off, and its callers call only this part.
    (ProbePosition::Return, &["getname_flags.part.0"]),
    // From Linux 7.0 on.
    (ProbePosition::Return, &["do_getname"]),
    (ProbePosition::Return, &["getname_flags.isra.0"]),
    (ProbePosition::Return, &["getname_flags.constprop.0"]),
    (ProbePosition::Return, &["getname_flags"]),
    (ProbePosition::Return, &["getname_flags", "getname"]),
    (ProbePosition::Entry, &["do_filp_open"]),
    (ProbePosition::Entry, &["do_file_open"]),
];

/// Created probes, and an instance whose existence shows that their tracer is alive.
#[derive(Debug)]
pub struct Probes {
    group: ProbeGroup,
    /// Coverage of calls with known paths, measured.
    pub covers: ProbeCoverage,
    /// Coverage as text.
    pub reason: String,
    marker: Instance,
}

/// Definitions of probe fields that depend on the offsets of structure members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ProbeFields {
    /// The path and its address in the program. At a return the structure is the return value, at
    /// an entry the second argument.
    path: [String; 2],
    /// Fields of a descriptor and its file.
    file: Option<String>,
}

impl ProbeFields {
    /// Returns the fields according to the kernel's types, as far as these are available.
    fn of(btf: Option<&Btf<'_>>) -> Self {
        let at = |structure: &str, member: &str| Some(btf?.member(structure, member)?.offset);
        // Without types: the name is assumed to be the first member; the test shows whether that is
        // right.
        let name = at("filename", "name").or_else(|| at("__filename_head", "name")).unwrap_or(0);
        let address = |copy: &str, argument: &str| match at("filename", "uptr") {
            Some(offset) => format!(" address=+{offset}({copy}):x64"),
            None => argument.to_owned(),
        };
        let path = |copy: &str, argument: &str| {
            format!("name=+0(+{name}({copy})):string copy={copy}:x64{}", address(copy, argument))
        };
        // At a return newer kernels provide the arguments, too. At an entry the program's address
        // is not among them.
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

    fn path(&self, at: ProbePosition) -> &str {
        let [at_return, at_entry] = &self.path;
        if at == ProbePosition::Return { at_return } else { at_entry }
    }
}

impl Probes {
    /// Returns probes that were created.
    pub(super) fn new(
        group: ProbeGroup,
        reason: String,
        covers: ProbeCoverage,
        marker: Instance,
    ) -> Self {
        Self { group, covers, reason, marker }
    }

    /// Creates the best probes that this kernel allows. `machine` is the output of `uname -m`,
    /// `own_name` the name of the tracer's threads.
    ///
    /// # Errors
    ///
    /// Reason for the failure, as text.
    pub fn find(tracefs: &Tracefs, machine: &str, own_name: &str) -> Result<Self, String> {
        let mut group = ProbeGroup::new(tracefs, ProbeKind::Kernel).map_err(|it| it.to_string())?;
        let lock = Instance::create(tracefs, "probes").map_err(|it| it.to_string())?;
        let types = std::fs::read(BTF).unwrap_or_default();
        let fields = ProbeFields::of(Btf::parse(&types).as_ref());
        let calls: Vec<CallId> = CallId::all().collect();
        let bench = Bench { tracefs, machine, own_name, instance: &lock, calls: &calls };
        let mut best: Option<(ProbePosition, ProbeCoverage)> = None;
        let mut refused = String::new();
        for &(at, functions) in PATH_FUNCTIONS {
            let covers = match define(&mut group, at, functions, &fields) {
                Ok(()) => bench
                    .try_out_twice(&group, functions, ProbeCoverage::everything)
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
                Err("probes could be made on this kernel, but showed none of the paths of a test"
                    .to_owned())
            }
            None => Err(format!(
                "none of the functions that see paths can be probed on this kernel ({refused})"
            )),
        }
    }

    /// Returns the instance that shows that the tracer of the probes is alive.
    pub(super) fn marker(&self) -> &Instance {
        &self.marker
    }

    /// Returns the probes, and the instance that shows that their tracer is alive.
    pub(super) fn into_parts(self) -> (ProbeGroup, Instance) {
        (self.group, self.marker)
    }

    /// Returns system and name of each probe.
    pub fn tracepoints(&self) -> impl Iterator<Item = (&str, &str)> {
        self.group.events().iter().map(|it| (self.group.name(), it.as_str()))
    }

    /// Returns a warning about calls whose names are missing because a thread found no free slot in
    /// a probed function.
    pub(super) fn missed_names(&self) -> Option<String> {
        match self.missed() {
            Ok(0) => None,
            Ok(missed) => Some(format!(
                "kprobes were missed {}, by any program: at most this number of names is unknown",
                counted(missed, "time")
            )),
            Err(error) => Some(format!("the number of missed kprobes is unknown: {error}")),
        }
    }

    /// Returns the number of samples that the kernel has missed.
    ///
    /// # Errors
    ///
    /// Errors of the kernel.
    pub fn missed(&self) -> io::Result<u64> {
        self.group.missed()
    }
}

/// Defines the probes of these functions, and the probe of files, if possible.
fn define(
    group: &mut ProbeGroup,
    at: ProbePosition,
    functions: &[&str],
    fields: &ProbeFields,
) -> io::Result<()> {
    for (number, function) in functions.iter().enumerate() {
        group.define(at, &format!("{PATH_PREFIX}{number}"), function, fields.path(at))?;
    }
    if let Some(file) = &fields.file {
        // Without this probe positions are unknown; the test detects that.
        let _ = group.define(ProbePosition::Entry, FILE_PREFIX, FILE_FUNCTION, file);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_types_only_paths_are_fetched() {
        let fields = ProbeFields::of(None);
        let expected = "name=+0(+0($retval)):string copy=$retval:x64 address=$arg1:x64";
        assert_eq!(fields.path(ProbePosition::Return), expected);
        assert_eq!(fields.path(ProbePosition::Entry), "name=+0(+0($arg2)):string copy=$arg2:x64");
        assert_eq!(fields.file, None);
    }
}
