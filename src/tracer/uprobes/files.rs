//! Files with code that the recorded programs may use: found here and searched by the helper; none
//! of them is read here.
//!
//! Any user can map any file under the name of a C library. So the work for a file is limited:
//! number of files, number of sites in a file, and time. Files of root come first. Files that are
//! not searched are reported.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::environment::Environment;
use super::super::options::Follow;
use super::super::programs;
use super::helper_main::{BOUNDS, VERB};
use super::protocol::{BinaryRequest, SiteReply, SitesAnswer, SitesQuestion};
use super::site_cache::{FileVersion, SiteCache};
use crate::event::syscall_table::CallId;
use crate::probe_sites::Sites;
use crate::sys::cancellation::Cancellation;
use crate::sys::proc::{self, MappedCode};
use crate::sys::sandboxed_helper::{self, HelperFailure};
use crate::sys::{clock, regular};
use crate::units::Pid;

/// Largest number of files that are searched.
const FILES_MAX: usize = 1024;

/// Longest time for the search, ns.
const SEARCH_NS_MAX: u64 = 30_000_000_000;

/// A file and its probe sites.
#[derive(Debug)]
pub(super) struct ProbedBinary {
    pub name: String,
    /// Found, not opened (`O_PATH`): enough for the kernel to identify the file.
    pub file: File,
    /// Identity and contents of a file that only root can change.
    pub version: Option<FileVersion>,
    pub sites: Sites,
    /// True if calls through its `syscall(3)` have no probe, although a position was found.
    pub leaves_syscall: bool,
    /// Reason why the file was not searched, or has no probes.
    pub missed: Option<String>,
}

/// A file that is not yet searched.
#[derive(Debug)]
struct CandidateBinary {
    name: String,
    file: File,
    bytes: u64,
    /// Identity and contents of a file that only root can change.
    version: Option<FileVersion>,
    only_static: bool,
}

/// Files of a recording.
#[derive(Debug, Default)]
pub(super) struct ProbedBinaries {
    pub all: Vec<ProbedBinary>,
    /// Number of files for which there was no room.
    pub left_out: usize,
}

/// Returns the files with sites of calls with paths, and those that were not searched, each once.
pub(super) fn probed(
    ground: Environment<'_>,
    wanted: &[CallId],
    cancellation: &mut Cancellation<'_>,
) -> ProbedBinaries {
    let mut files = ProbedBinaries::default();
    let candidates = candidates(ground, &mut files.left_out, cancellation);
    let groups = found(candidates, &mut files.left_out);
    files.search(groups, wanted, cancellation);
    files
}

/// Returns the installed libaio with sites of calls with lists, and files that were not searched.
///
/// Only files that root alone can change are probed: the kernel refuses some instructions when a
/// probe is switched on, and another user's file could have one of them where a probe goes.
pub(super) fn probed_libaio(
    wanted: &[CallId],
    cancellation: &mut Cancellation<'_>,
) -> ProbedBinaries {
    let installed = LIBRARY_DIRECTORIES
        .iter()
        .flat_map(|directory| LIBAIO_NAMES.iter().map(move |name| Path::new(directory).join(name)));
    let code = |path: PathBuf| MappedCode { name: path.display().to_string(), link: path };
    let mut files = ProbedBinaries::default();
    let candidates = installed.map(|path| (code(path), false)).collect();
    let mut groups = found(candidates, &mut files.left_out);
    groups.retain(|group, _| *group == ROOT_ONLY);
    files.search(groups, wanted, cancellation);
    files
}

/// Directories of libraries, for programs that have yet to load theirs.
const LIBRARY_DIRECTORIES: [&str; 5] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"];

/// Names under which programs load libaio; Debian 13 and Ubuntu 24.04 have the second one.
const LIBAIO_NAMES: [&str; 2] = ["libaio.so.1", "libaio.so.1t64"];

impl ProbedBinaries {
    fn search(
        &mut self,
        groups: BTreeMap<u64, VecDeque<CandidateBinary>>,
        wanted: &[CallId],
        cancellation: &mut Cancellation<'_>,
    ) {
        let until = clock::now().0.saturating_add(SEARCH_NS_MAX);
        for (group, mut candidates) in groups {
            // Other users could give their files the times of others.
            let mut cache = SiteCache::load().filter(|_| group == ROOT_ONLY);
            if let Some(cache) = &cache {
                candidates = self.take_known(candidates, wanted, cache);
            }
            let mut search =
                SiteSearch { wanted, until, cache: cache.as_mut(), files: &mut self.all };
            search.look_through(candidates, cancellation);
            cache.iter().for_each(SiteCache::store);
        }
    }

    /// Adds the files whose results are known. Returns the others.
    fn take_known(
        &mut self,
        candidates: VecDeque<CandidateBinary>,
        wanted: &[CallId],
        cache: &SiteCache,
    ) -> VecDeque<CandidateBinary> {
        let mut rest = VecDeque::new();
        for candidate in candidates {
            let known = candidate
                .version
                .and_then(|version| cache.find(&version, candidate.only_static, wanted));
            match known {
                Some(reply) => self.all.extend(candidate.looked_through(reply)),
                None => rest.push_back(candidate),
            }
        }
        rest
    }
}

/// Returns the files by owner: one question is about files of one owner, so that no file can forge
/// results for a file of another owner. Files of root come first.
fn found(
    candidates: Vec<(MappedCode, bool)>,
    left_out: &mut usize,
) -> BTreeMap<u64, VecDeque<CandidateBinary>> {
    let mut seen = BTreeSet::new();
    let mut groups: BTreeMap<u64, VecDeque<CandidateBinary>> = BTreeMap::new();
    let mut count = 0;
    for (MappedCode { name, link }, only_static) in candidates {
        let Some((file, about)) = regular::find_regular(&link, true) else { continue };
        if !seen.insert((about.dev(), about.ino())) {
            continue;
        }
        if count == FILES_MAX {
            *left_out += 1;
            continue;
        }
        count += 1;
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        let group = trust(&about);
        let is_of_root = group == ROOT_ONLY;
        let version = if is_of_root { FileVersion::of(&file, &about) } else { None };
        let found = CandidateBinary { name, file, bytes: about.len(), version, only_static };
        groups.entry(group).or_default().push_back(found);
    }
    groups
}

/// Group of the files that only root can change.
const ROOT_ONLY: u64 = 0;

/// Returns the group of a file: files of root that only root can change are one group, files of
/// each other user another one.
fn trust(about: &Metadata) -> u64 {
    let is_for_others = about.mode() & (libc::S_IWGRP | libc::S_IWOTH) != 0;
    match about.uid() {
        0 if is_for_others => u64::MAX,
        0 => ROOT_ONLY,
        user => user.into(),
    }
}

/// Search of files of one group.
struct SiteSearch<'a> {
    wanted: &'a [CallId],
    /// Kernel time at which the search ends, ns.
    until: u64,
    cache: Option<&'a mut SiteCache>,
    files: &'a mut Vec<ProbedBinary>,
}

impl SiteSearch<'_> {
    /// Asks about these files until each has a result.
    fn look_through(
        &mut self,
        mut waiting: VecDeque<CandidateBinary>,
        cancellation: &mut Cancellation<'_>,
    ) {
        while !waiting.is_empty() {
            if clock::now().0 >= self.until || cancellation.is_cancelled() {
                let why =
                    if cancellation.is_cancelled() { "a signal came" } else { "the time was up" };
                self.files.extend(waiting.drain(..).filter_map(|it| it.missed(why)));
                return;
            }
            let request = |candidate: &CandidateBinary| BinaryRequest {
                fd: candidate.file.as_raw_fd(),
                only_static: candidate.only_static,
            };
            let question = SitesQuestion {
                pid: std::process::id(),
                calls: self.wanted.to_vec(),
                files: waiting.iter().map(request).collect(),
            };
            let lengths: Vec<u64> = waiting.iter().map(|it| it.bytes).collect();
            let reply =
                sandboxed_helper::run_helper(&[VERB], &question.encode(), &BOUNDS, cancellation);
            let SitesAnswer { replies, at_hand } =
                SitesAnswer::decode(&reply.answer, &question, &lengths);
            let is_of_all = reply.failure.as_ref().is_some_and(HelperFailure::is_of_all);
            // Earlier files may have used up the limits. In that case the current file is asked
            // about once more, first.
            let is_innocent = is_of_all && !replies.is_empty();
            let why =
                reply.failure.map_or("the answer makes no sense".to_owned(), |it| it.to_string());
            let mut left: BTreeMap<usize, CandidateBinary> =
                waiting.drain(..).enumerate().collect();
            for (place, site_reply) in replies {
                let Some(candidate) = left.remove(&place) else { continue };
                if let Some(cache) = &mut self.cache
                    && let Some(version) = candidate.version
                {
                    cache.add(version, candidate.only_static, self.wanted, &site_reply);
                }
                self.files.extend(candidate.looked_through(site_reply));
            }
            let blamed = at_hand.or_else(|| left.keys().next().copied()).filter(|_| !is_innocent);
            let blamed = blamed.and_then(|it| left.remove(&it));
            self.files.extend(blamed.and_then(|it| it.missed(&why)));
            waiting = left.into_values().collect();
        }
    }
}

impl CandidateBinary {
    fn looked_through(self, reply: SiteReply) -> Option<ProbedBinary> {
        let why = match reply {
            SiteReply::Read(sites) if sites == Sites::default() => return None,
            SiteReply::Read(sites) => {
                let Self { name, file, version, .. } = self;
                let (leaves_syscall, missed) = (false, None);
                return Some(ProbedBinary { name, file, version, sites, leaves_syscall, missed });
            }
            // Other files have no code that is understood here.
            SiteReply::NoCode | SiteReply::Linked => return None,
            SiteReply::TooMany => "has more places than are probed",
            SiteReply::TooLarge => "has more than 256 MiB",
            SiteReply::Closed => "cannot be opened",
        };
        self.missed(why)
    }

    /// Reports the file, unless it would not have been probed anyway.
    fn missed(self, why: &str) -> Option<ProbedBinary> {
        let Self { name, file, version, only_static, .. } = self;
        let (sites, leaves_syscall) = (Sites::default(), false);
        let missed = Some(why.to_owned());
        let probed = ProbedBinary { name, file, version, sites, leaves_syscall, missed };
        (!only_static).then_some(probed)
    }
}

/// Returns the files that are mapped as code; true for files that matter only when they are
/// statically linked.
fn candidates(
    ground: Environment<'_>,
    left_out: &mut usize,
    cancellation: &mut Cancellation<'_>,
) -> Vec<(MappedCode, bool)> {
    let own = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let mut files = proc::mapped_code("self");
    // The launched program will use the same C library as the tracer. The tracer's own calls do not
    // matter.
    files.retain(|it| Path::new(&it.name) != own);
    files.retain(|it| is_c_library(&it.name));
    if let Some(command) = ground.command.first() {
        let (needed, is_cut) = launched(command, cancellation);
        files.extend(needed);
        *left_out += usize::from(is_cut);
    }
    let mut files: Vec<(MappedCode, bool)> = files.into_iter().map(|it| (it, false)).collect();
    let code = running(ground).into_iter().flat_map(|pid| proc::mapped_code(&pid.to_string()));
    let known = code.map(|mapped| {
        let is_library = is_c_library(&mapped.name);
        (mapped, !is_library)
    });
    files.extend(known.filter(|it| !it.1 || !it.0.name.contains(".so")));
    files
}

/// Returns the processes that exist and will be recorded.
fn running(ground: Environment<'_>) -> Vec<Pid> {
    match ground.follow {
        Follow::System => proc::processes(),
        Follow::Attached(roots) => {
            let roots: Vec<_> = roots.iter().copied().map(Pid).collect();
            proc::with_descendants(&roots)
        }
        Follow::Launched => Vec::new(),
    }
}

/// True for libraries that make the system calls of nearly all programs. Searching every library of
/// a machine would take seconds.
fn is_c_library(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or_default();
    let known = ["libc.", "libc-", "libpthread.", "libpthread-", "ld-", "ld."];
    known.iter().any(|it| name.starts_with(it))
}

/// Returns the program that a command starts, and the interpreters and the loader that the kernel
/// starts for it; true if one could not be read. A helper reads their headers.
fn launched(command: &str, cancellation: &mut Cancellation<'_>) -> (Vec<MappedCode>, bool) {
    let (needed, is_cut) = programs::needed_by(&places_of(command), cancellation);
    let code = |it: PathBuf| MappedCode { name: it.display().to_string(), link: it };
    (needed.into_iter().map(code).collect(), is_cut)
}

/// Returns the possible paths of a command.
fn places_of(command: &str) -> Vec<PathBuf> {
    let directory = std::env::current_dir().unwrap_or_default();
    if command.contains('/') {
        return vec![directory.join(command)];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|it| directory.join(it).join(command)).collect()
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::probe_sites::Site;

    /// File with emulated sites at these positions.
    pub(crate) fn probed(version: Option<FileVersion>, offsets: &[u64]) -> ProbedBinary {
        let site = |offset: &u64| {
            let (registers, calls) = (vec!["di"], Default::default());
            Site { offset: *offset, registers, calls, emulated: true, number: None }
        };
        let sites = Sites { sites: offsets.iter().map(site).collect(), ..Sites::default() };
        let file = File::open("/dev/null").expect("it exists");
        let (name, leaves_syscall, missed) = ("libc.so.6".to_owned(), false, None);
        ProbedBinary { name, file, version, sites, leaves_syscall, missed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cancellation::testing::endless;

    #[test]
    fn a_command_is_looked_for_in_the_path() {
        let (found, is_cut) = launched("sh", endless());
        assert!(!is_cut);
        assert!(found.first().is_some_and(|it| it.name.ends_with("/sh")), "{found:?}");
    }

    #[test]
    fn a_script_leads_to_its_interpreter_and_to_what_links_that() {
        let dir = tempfile::tempdir().expect("a folder");
        let script = dir.path().join("script");
        std::fs::write(&script, "#! /bin/sh -e\n").expect("written");
        let (found, _) = launched(script.to_str().expect("text"), endless());
        let names: Vec<String> = found.into_iter().map(|it| it.name).collect();
        assert_eq!(names.get(..2), Some(&[script.display().to_string(), "/bin/sh".to_owned()][..]));
        assert!(names.get(2).is_some_and(|it| it.contains("ld-")), "{names:?}");
    }

    /// Does not end if the FIFO is opened.
    #[test]
    fn an_interpreter_that_is_a_fifo_is_not_opened() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
        std::fs::write(at("script"), format!("#!{}\n", at("fifo").display())).expect("written");
        let needed = |name: &str| {
            let (needed, is_cut) = launched(at(name).to_str().expect("text"), endless());
            (needed.len(), is_cut)
        };
        assert_eq!((needed("script"), needed("fifo")), ((1, true), (0, true)));
        assert_eq!(needed("gone"), (0, false));
    }
}
