//! Uprobes that report file names: probes at code in libraries that passes a path to the kernel.
//!
//! The addresses are found by analysing the code of each file (`probe_sites`). A probe belongs to a
//! file and fires in every process that runs its code. Calls with known paths then show whether the
//! probes report names.
//!
//! A probe is never placed at the `syscall` instruction itself. The kernel would single-step it
//! elsewhere and hold signals back until the call has ended: an open that waits for the other end
//! of a pipe could not be interrupted any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;

use super::environment::Environment;
use super::name_source::NameSource;
use super::probe_coverage::ProbeCoverage;
use super::probe_validation::{Bench, shrink_marker};
use super::probes::Probes;
use crate::event::probe_events::{GIVEN_PREFIX, NUMBER_FIELD, NUMBERED_PREFIX};
use crate::event::syscall_table::CallId;
use crate::probe_sites::{self, Site};
use crate::sys::cancellation::Cancellation;
use crate::sys::probe_events::{ProbeGroup, ProbeKind};
use crate::sys::proc;
use crate::sys::tracefs_instance::Instance;

pub mod aio;
pub mod code_readers;
mod files;
pub mod helper_main;
mod passed_validation;
mod protocol;
mod site_cache;

use files::{ProbedBinaries, ProbedBinary};
pub use helper_main::VERB;
use passed_validation::ValidationKey;

/// True for a program without a dynamic loader: no library makes its calls.
const IS_STATIC: bool = cfg!(target_feature = "crt-static");

/// Largest number of probes in one recording. The kernel inserts each probe into the memory of
/// every process that maps its file, and removes it at the end.
const PROBES_MAX: usize = 4096;

/// Largest number of files without probes that are reported by name.
const NAMED_MAX: usize = 8;

/// Oldest release with safe uprobes. In earlier kernels a path of more than 4,080 bytes makes the
/// kernel write beyond its own page (CVE-2024-50067, `store_trace_args()`). Some earlier kernels
/// were fixed later, but their releases do not show that.
const RELEASE_MIN: (u32, u32) = (6, 12);

/// Setting that makes a warning a panic. A path of more than 4,080 bytes makes newer kernels warn
/// (`WARN_ON_ONCE` in `prepare_uprobe_buffer()`).
const PANIC_ON_WARN: &str = "/proc/sys/kernel/panic_on_warn";

/// Creates the probes, if the kernel allows them, and validates them.
///
/// # Errors
///
/// Reason why there are none, as text.
pub fn find(
    names: NameSource,
    ground: Environment<'_>,
    cancellation: &mut Cancellation<'_>,
) -> Result<Probes, String> {
    if IS_STATIC {
        return Err(
            "probes are tried out by calls through the C library, which this static program \
                    does not load"
                .to_owned(),
        );
    }
    if let Some(why) = hindrance(ground.machine, &proc::host().kernel_release) {
        return Err(why);
    }
    if let Some(why) = code_readers::hindrance(ground.command) {
        return Err(why);
    }
    let mut group =
        ProbeGroup::new(ground.tracefs, ProbeKind::User).map_err(|it| it.to_string())?;
    let wanted: Vec<CallId> =
        ground.calls.iter().copied().filter(|call| names.probes_show(call.call())).collect();
    let mut files = files::probed(ground, &wanted, cancellation);
    // Beside a listener and readers the paths of opens suffice.
    if names.listens() && names.reads() {
        files.all.iter_mut().for_each(drop_stepped_syscall_sites);
    }
    if files.all.iter().all(|it| it.sites.sites.is_empty()) {
        return Err("no code was found where a library passes a path to the kernel".to_owned());
    }
    let lock = Instance::create(ground.tracefs, "probes").map_err(|it| it.to_string())?;
    define_all(&mut group, &mut files.all, cancellation)?;
    shrink_marker(&lock).map_err(|error| error.to_string())?;
    let covers = validated(&group, &files.all, &lock, &wanted, ground);
    let covers = covers.map_err(|error| error.to_string())?;
    if covers.shown.is_empty() {
        return Err(
            "probes could be made in libraries, but showed none of the paths of a test".to_owned()
        );
    }
    let reason = text(names, &covers, &files);
    let blank = files.all.iter().filter(|file| is_blank(file)).count() + files.left_out;
    Ok(Probes::new(group, reason, ProbeCoverage { blank, ..covers }, lock))
}

/// Returns the coverage of the probes by a validation, which is not repeated if it was passed.
fn validated(
    group: &ProbeGroup,
    files: &[ProbedBinary],
    instance: &Instance,
    calls: &[CallId],
    ground: Environment<'_>,
) -> io::Result<ProbeCoverage> {
    let key = ValidationKey::of(files, calls).filter(|_| ground.recalls);
    if key.as_ref().is_some_and(ValidationKey::has_passed) {
        // It had shown the paths of all test calls.
        let shown = calls.iter().map(|call| call.call().name).collect();
        return Ok(ProbeCoverage { shown, ..ProbeCoverage::default() });
    }
    let Environment { tracefs, machine, own_name, .. } = ground;
    let bench = Bench { tracefs, machine, own_name, instance, calls };
    let covers = bench.try_out_twice(group, &[], ProbeCoverage::paths)?;
    key.iter().filter(|_| covers.paths()).for_each(ValidationKey::store);
    Ok(covers)
}

/// Returns the reason why such probes cannot be used on this machine, if there is one.
pub fn hindrance(machine: &str, release: &str) -> Option<String> {
    if machine != probe_sites::MACHINE {
        return Some(format!(
            "uprobes need code for {} (this machine is {machine})",
            probe_sites::MACHINE
        ));
    }
    let mut numbers = release.split(['.', '-']).map_while(|it| it.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < RELEASE_MIN {
        return Some(format!(
            "uprobes need Linux 6.12 (this is {release}): older kernels write beyond their own memory when a path is very \
             long (CVE-2024-50067)"
        ));
    }
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if cpus.split_whitespace().any(|it| it == "user_shstk") {
        return Some(
            "programs may have a shadow stack on this processor, which the kernel's uprobes on call instructions do not support"
                .to_owned(),
        );
    }
    let stops = std::fs::read_to_string(PANIC_ON_WARN).is_ok_and(|it| it.trim() != "0");
    stops.then(|| {
        "a very long path makes the kernel's uprobes warn, and kernel.panic_on_warn makes that a panic"
            .to_owned()
    })
}

/// Drops the sites that calls of all kinds pass (`syscall(3)`) and whose instruction the kernel
/// does not emulate: its single step costs every such call 10 to 15 µs in a virtual machine.
fn drop_stepped_syscall_sites(file: &mut ProbedBinary) {
    let is_stepped = |site: &mut Site| site.number.is_some() && !site.emulated;
    file.leaves_syscall = file.sites.sites.extract_if(.., is_stepped).count() > 0;
}

/// Creates the probes of all files. A file that takes no probes, or no more, loses only its own
/// names.
fn define_all(
    group: &mut ProbeGroup,
    files: &mut [ProbedBinary],
    cancellation: &mut Cancellation<'_>,
) -> Result<(), String> {
    let mut left = PROBES_MAX;
    for file in files {
        if cancellation.is_cancelled() {
            return Err("a signal came".to_owned());
        }
        let count = file.sites.sites.iter().map(|it| it.registers.len()).sum();
        let missed = match left.checked_sub(count) {
            Some(others) => {
                left = others;
                define(group, file).err().map(|it| format!("takes no probes: {it}"))
            }
            None => Some("has more places than there is room for".to_owned()),
        };
        if missed.is_some() {
            file.missed = missed;
            file.sites.sites.clear();
        }
    }
    Ok(())
}

fn define(group: &mut ProbeGroup, probed: &ProbedBinary) -> io::Result<()> {
    for site in &probed.sites.sites {
        for register in &site.registers {
            let mut fields = format!("name=+0(%{register}):ustring address=%{register}:x64");
            let event = match site.number {
                None => GIVEN_PREFIX,
                Some(number) => {
                    let _ = write!(fields, " {NUMBER_FIELD}=%{number}:u64");
                    NUMBERED_PREFIX
                }
            };
            group.define_in(event, &probed.file, site.offset, &fields)?;
        }
    }
    Ok(())
}

fn text(
    names: NameSource,
    covers: &ProbeCoverage,
    ProbedBinaries { all: files, left_out }: &ProbedBinaries,
) -> String {
    let paths = if covers.paths() {
        format!("the paths of {}", names.probed_calls())
    } else {
        format!("the paths of {} only", covers.shown.join(", "))
    };
    let places = files.iter().filter(|it| !it.sites.sites.is_empty());
    let places: Vec<String> =
        places.map(|it| format!("{} ({} places)", it.name, it.sites.sites.len())).collect();
    let blank: Vec<&ProbedBinary> = files.iter().filter(|it| is_blank(it)).collect();
    let reported = blank.iter().take(NAMED_MAX).map(|file| match &file.missed {
        Some(why) => format!(", none of {}, which was not searched: {why}", file.name),
        None => format!(", none of {}, whose code is not understood", file.name),
    });
    let more = blank.len().saturating_sub(NAMED_MAX) + left_out;
    let more = (more > 0).then(|| format!(", none of {more} more files"));
    let blank: Vec<String> = reported.chain(more).collect();
    let mut hidden: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        for call in &file.sites.hidden {
            hidden.entry(&file.name).or_default().insert(call.call().name);
        }
    }
    let hidden: Vec<String> = hidden
        .into_iter()
        .map(|(name, calls)| {
            let calls: Vec<&str> = calls.into_iter().collect();
            format!(", except of {} in {name}", calls.join(", "))
        })
        .collect();
    let left: Vec<&str> =
        files.iter().filter(|file| file.leaves_syscall).map(|file| file.name.as_str()).collect();
    let left = match left.as_slice() {
        [] => String::new(),
        files => format!(", except through syscall() of {}", files.join(", ")),
    };
    format!(
        "{paths} that programs make through {}{}{left}{}; not of other libraries, nor of programs with system calls of their own that start later",
        places.join(", "),
        hidden.concat(),
        blank.concat()
    )
}

/// True if no call of the file can be probed.
fn is_blank(file: &ProbedBinary) -> bool {
    let has_calls = !file.sites.sites.is_empty() || !file.sites.hidden.is_empty();
    file.missed.is_some() || !has_calls && !file.leaves_syscall
}

#[cfg(test)]
mod tests {
    use super::files::testing::probed;
    use super::*;

    #[test]
    fn only_stepped_sites_of_all_calls_are_dropped() {
        let mut file = probed(None, &[1, 2, 3]);
        for (site, (number, emulated)) in file.sites.sites.iter_mut().zip([
            (None, false),
            (Some("di"), true),
            (Some("di"), false),
        ]) {
            (site.number, site.emulated) = (number, emulated);
        }
        drop_stepped_syscall_sites(&mut file);
        let left: Vec<u64> = file.sites.sites.iter().map(|site| site.offset).collect();
        assert_eq!((left, file.leaves_syscall), (vec![1, 2], true));
        let covers = ProbeCoverage { shown: vec!["open"], ..ProbeCoverage::default() };
        let reason_of = |file| {
            let files = ProbedBinaries { all: vec![file], left_out: 0 };
            text(NameSource::UprobeFanotify, &covers, &files)
        };
        assert!(reason_of(file).contains("(2 places), except through syscall() of libc.so.6;"));
        let mut rest = probed(None, &[]);
        rest.leaves_syscall = true;
        assert!(!is_blank(&rest));
        assert!(!reason_of(probed(None, &[1])).contains("syscall()"));
    }

    #[test]
    fn probes_are_set_only_at_safe_instructions() {
        assert!(hindrance("aarch64", "6.18.0").is_some_and(|it| it.contains("aarch64")));
        assert!(hindrance("x86_64", "6.11.9-amd64").is_some_and(|it| it.contains("CVE")));
        assert!(hindrance("x86_64", "odd").is_some());
        let stops = std::fs::read_to_string(PANIC_ON_WARN).is_ok_and(|it| it.trim() != "0");
        for release in ["6.12.0", "6.12.117+deb12-cloud-amd64", "7.2.12"] {
            assert_eq!(hindrance("x86_64", release).is_some(), stops, "{release}");
        }
    }
}
