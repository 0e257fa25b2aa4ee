//! Probes in the code of programs that tell the names of files: where libraries hand a path to the kernel.
//!
//! Which places those are is read from the code itself (`sites`), of each file for itself: a probe belongs to a file, and
//! whoever runs its code passes it. Then calls whose paths are known show whether names come out.
//!
//! A place is never the `syscall` itself. The kernel would let it run elsewhere, step by step, and hold signals back
//! until the call has ended: an open that waits for the other end of a pipe could not be interrupted any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::bench::Bench;
use super::naming::Ground;
use super::options::Follow;
use super::probes::{Covers, Probes};
use crate::event::probed::{GIVEN_PREFIX, NUMBER_FIELD, NUMBERED_PREFIX};
use crate::event::syscall_table::CallId;
use crate::sites::{self, Sites};
use crate::sys::instance::Instance;
use crate::sys::probe_events::{Kind, ProbeGroup};
use crate::sys::proc::{self, MappedCode};

/// Before this release a path of more than 4,080 bytes makes the kernel write behind a page of its own
/// (CVE-2024-50067, `store_trace_args()`). Some older ones were mended later, but their releases do not say so.
const RELEASE_MIN: (u32, u32) = (6, 12);

/// Such a path makes newer kernels complain (`WARN_ON_ONCE` in `prepare_uprobe_buffer()`), and this makes them stop then.
const PANIC_ON_WARN: &str = "/proc/sys/kernel/panic_on_warn";

/// Larger files with code are not looked through, and told: to read their code takes seconds.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A file, and what was found in it.
#[derive(Debug)]
struct Probed {
    name: String,
    file: File,
    sites: Sites,
    /// It was not looked through.
    is_too_large: bool,
}

/// Makes them, if the kernel allows it, and tries them out.
///
/// # Errors
///
/// Why there are none, in words.
pub fn find(ground: Ground<'_>) -> Result<Probes, String> {
    if let Some(why) = hindrance(ground.machine, &proc::host().kernel_release) {
        return Err(why);
    }
    let mut group = ProbeGroup::new(ground.tracefs, Kind::User).map_err(|it| it.to_string())?;
    let wanted: Vec<CallId> =
        ground.calls.iter().copied().filter(|it| it.call().has_path()).collect();
    let files = probed_files(ground, &wanted);
    if files.iter().all(|it| it.sites.sites.is_empty()) {
        return Err("no place was found where a library hands a path to the kernel".to_owned());
    }
    let lock = Instance::create(ground.tracefs, "probes").map_err(|it| it.to_string())?;
    for file in &files {
        define(&mut group, file).map_err(|it| format!("{}: {it}", file.name))?;
    }
    let Ground { tracefs, machine, own_name, .. } = ground;
    let bench = Bench { tracefs, machine, own_name, instance: &lock, calls: ground.calls };
    let covers = bench.try_out_twice(&group, &[], Covers::paths).map_err(|it| it.to_string())?;
    if covers.shown.is_empty() {
        return Err(
            "probes could be made in libraries, but showed none of the paths of a trial".to_owned()
        );
    }
    let reason = text(&covers, &files);
    Ok(Probes::new(group, reason, covers, lock))
}

/// What speaks against such probes on this machine, if anything does.
pub fn hindrance(machine: &str, release: &str) -> Option<String> {
    if machine != sites::MACHINE {
        return Some(format!(
            "uprobes need code for {} (this machine is {machine})",
            sites::MACHINE
        ));
    }
    let mut numbers = release.split(['.', '-']).map_while(|it| it.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < RELEASE_MIN {
        return Some(format!(
            "uprobes need Linux 6.12 (this is {release}): older kernels write behind their own memory when a path is very \
             long (CVE-2024-50067)"
        ));
    }
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if cpus.split_whitespace().any(|it| it == "user_shstk") {
        return Some(
            "programs may have a shadow stack on this processor, which the kernel's uprobes on calls know nothing of"
                .to_owned(),
        );
    }
    let stops = std::fs::read_to_string(PANIC_ON_WARN).is_ok_and(|it| it.trim() != "0");
    stops.then(|| {
        "a very long path makes the kernel's uprobes warn, and kernel.panic_on_warn makes that a panic"
            .to_owned()
    })
}

fn define(group: &mut ProbeGroup, probed: &Probed) -> io::Result<()> {
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

/// The files with code that may be used by those who are recorded, each once, with what they hold.
fn probed_files(ground: Ground<'_>, wanted: &[CallId]) -> Vec<Probed> {
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    for MappedCode { name, link } in candidates(ground) {
        let Ok(mut file) = File::open(&link) else { continue };
        let Ok(about) = file.metadata() else { continue };
        if !about.is_file() || !seen.insert((about.dev(), about.ino())) {
            continue;
        }
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        if about.len() > FILE_BYTES_MAX {
            files.push(Probed { name, file, sites: Sites::default(), is_too_large: true });
            continue;
        }
        let mut bytes = Vec::new();
        if file.read_to_end(&mut bytes).is_err() {
            continue;
        }
        // Others are no files whose code is known here.
        let Ok(sites) = sites::find(&bytes, wanted) else { continue };
        if sites != Sites::default() {
            files.push(Probed { name, file, sites, is_too_large: false });
        }
    }
    files
}

fn candidates(ground: Ground<'_>) -> Vec<MappedCode> {
    let own = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let mut files = proc::mapped_code("self");
    // What the launched program will use of the C library is what we use. Our own calls are of no concern.
    files.retain(|it| Path::new(&it.name) != own);
    files.retain(|it| is_c_library(&it.name));
    let of = |pids: Vec<crate::units::Pid>| {
        let code = pids.into_iter().flat_map(|it| proc::mapped_code(&it.to_string()));
        code.filter(|it| is_c_library(&it.name) || is_static(it)).collect::<Vec<_>>()
    };
    match ground.follow {
        Follow::System => files.extend(of(proc::processes())),
        Follow::Attached(roots) => {
            let roots: Vec<_> = roots.iter().copied().map(crate::units::Pid).collect();
            files.extend(of(proc::with_descendants(&roots)));
        }
        Follow::Launched => {}
    }
    files.extend(ground.command.first().into_iter().flat_map(|it| launched(it)));
    files
}

/// True for what has the system calls of nearly all programs. To look through every library of a machine takes seconds.
fn is_c_library(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or_default();
    let known = ["libc.", "libc-", "libpthread.", "libpthread-", "ld-", "ld."];
    known.iter().any(|it| name.starts_with(it))
}

/// True for a program that nothing links when it starts: its system calls are its own.
fn is_static(code: &MappedCode) -> bool {
    let is_library = code.name.contains(".so");
    if is_library {
        return false;
    }
    let mut head = vec![0; 4096];
    let read = File::open(&code.link).and_then(|mut it| it.read(&mut head)).unwrap_or(0);
    head.truncate(read);
    read > 0 && sites::interpreter(&head).is_none()
}

/// The program that a command starts, and what starts or links it.
fn launched(command: &str) -> Vec<MappedCode> {
    let mut files = Vec::new();
    let mut next = in_path(command);
    // A script's interpreter may be one; then what links that.
    while let Some(link) = next.filter(|_| files.len() < 4) {
        let mut head = vec![0; 4096];
        let read = File::open(&link).and_then(|mut it| it.read(&mut head));
        head.truncate(read.unwrap_or(0));
        next = match head.strip_prefix(b"#!") {
            Some(line) => {
                let line = line.split(|it| *it == b'\n').next().unwrap_or_default();
                let word = line.split(u8::is_ascii_whitespace).find(|it| !it.is_empty());
                word.map(|it| PathBuf::from(String::from_utf8_lossy(it).into_owned()))
            }
            None => sites::interpreter(&head).map(PathBuf::from),
        };
        files.push(MappedCode { name: link.display().to_string(), link });
    }
    files
}

/// The file that a command means.
fn in_path(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(command.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|it| it.join(command)).find(|it| it.is_file())
}

fn text(covers: &Covers, files: &[Probed]) -> String {
    let paths = if covers.paths() {
        "the paths of calls".to_owned()
    } else {
        format!("the paths of {} only", covers.shown.join(", "))
    };
    let places = files.iter().filter(|it| !it.sites.sites.is_empty());
    let places: Vec<String> =
        places.map(|it| format!("{} ({} places)", it.name, it.sites.sites.len())).collect();
    let blank = files.iter().filter(|it| it.sites.sites.is_empty() && it.sites.hidden.is_empty());
    let blank: Vec<String> = blank
        .map(|it| match it.is_too_large {
            true => format!(", none of {}, which has more than {FILE_BYTES_MAX} bytes", it.name),
            false => format!(", none of {}, whose code is not understood", it.name),
        })
        .collect();
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
            format!(", but of {} in {name}", calls.join(", "))
        })
        .collect();
    format!(
        "{paths} that programs make through {}{}{}; not of other libraries, nor of programs with system calls of their own that start later",
        places.join(", "),
        hidden.concat(),
        blank.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_where_nothing_can_be_damaged() {
        assert!(hindrance("aarch64", "6.18.0").is_some_and(|it| it.contains("aarch64")));
        assert!(hindrance("x86_64", "6.11.9-amd64").is_some_and(|it| it.contains("CVE")));
        assert!(hindrance("x86_64", "odd").is_some());
        let stops = std::fs::read_to_string(PANIC_ON_WARN).is_ok_and(|it| it.trim() != "0");
        for release in ["6.12.0", "6.12.117+deb12-cloud-amd64", "7.2.12"] {
            assert_eq!(hindrance("x86_64", release).is_some(), stops, "{release}");
        }
    }

    #[test]
    fn a_script_leads_to_its_interpreter_and_to_what_links_that() {
        let dir = tempfile::tempdir().expect("a folder");
        let script = dir.path().join("script");
        std::fs::write(&script, "#! /bin/sh -e\n").expect("written");
        let names: Vec<String> =
            launched(script.to_str().expect("text")).into_iter().map(|it| it.name).collect();
        assert_eq!(names.get(..2), Some(&[script.display().to_string(), "/bin/sh".to_owned()][..]));
        assert!(names.get(2).is_some_and(|it| it.contains("ld-")), "{names:?}");
    }
}
