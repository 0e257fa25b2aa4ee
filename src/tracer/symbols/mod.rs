//! Symbolization: finds function names for addresses at the end of a recording.
//!
//! The kernel's functions come from `/proc/kallsyms`. Functions of a program come from its ELF
//! files. Each file is opened at the path that the process has (so also in a container, while it
//! runs), or at the tracer's own path, if the file there is still the same. Functions compiled at
//! run time come from `/tmp/perf-PID.map`, if the program writes that list. Data that programs have
//! made is read by helpers ([`helper_main`]), each for one file. If a file kills its helper, the
//! addresses in that file have no names, and the reason is reported.

pub(super) mod file_access;
pub mod helper_main;
pub(super) mod kernel;
mod perf_map;
pub(super) mod protocol;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::executable_mappings::{CodeFile, CodeMapping, FileIdentity};
use crate::capture::fact::Symbol;
use crate::capture::header::{Unread, UnreadFile};
use crate::sys::cancellation::Cancellation;
use crate::sys::clock;
use crate::sys::sandboxed_helper::{self, HelperFailure, HelperReply, ResourceLimits};
use crate::units::{KernelTime, Pid};
pub(super) use perf_map::owner_of;
use protocol::{CopyState, FunctionOffset, Group, ProcessRequest, SymbolsAnswer, SymbolsQuestion};

/// Hidden subcommand that starts this program as the helper.
pub const VERB: &str = "name-functions";

/// Largest number of processes in one question: the helper opens up to three files for each.
const PROCESSES_MAX: usize = 64;

/// Time after which no new question is asked; a running one may finish.
const ALL_TIME: Duration = Duration::from_secs(120);

/// Largest size of all names of programs' functions, in bytes.
const NAMES_BYTES_MAX: usize = 256 << 20;

/// Largest number of unreadable files that are reported by name.
const UNREAD_MAX: usize = 16;

/// Name that stands for all lists of compiled functions.
const LISTS: &[u8] = b"/tmp/perf-PID.map";

/// An address of a program.
#[derive(Debug)]
pub(super) struct UnresolvedAddress {
    pub pid: Pid,
    pub address: u64,
    pub since: KernelTime,
    /// Mapping at the address.
    pub code: Option<CodeMapping>,
}

/// Results for the addresses of programs.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// Symbols, also those without a name.
    pub named: Vec<Symbol>,
    /// Number of lists of compiled functions that were too long to be read to their ends.
    pub cut: u64,
    /// Files that could not be read.
    pub unread: Unread,
}

/// Returns the functions of programs at these addresses. `owners` has the users of processes, which
/// may have ended.
pub(super) fn of_programs(
    wanted: Vec<UnresolvedAddress>,
    owners: &FxHashMap<Pid, Option<u32>>,
    cancellation: &mut Cancellation<'_>,
) -> Programs {
    let mut by_file: BTreeMap<Option<Arc<CodeFile>>, BTreeMap<Pid, Vec<UnresolvedAddress>>> =
        BTreeMap::new();
    for it in wanted {
        let file = it.code.as_ref().map(|it| &it.file).filter(|it| is_path(&it.path));
        let by_pid = by_file.entry(file.cloned()).or_default();
        by_pid.entry(it.pid).or_default().push(it);
    }
    let mut asking = HelperSession::new(HELPER, helper_main::BOUNDS, cancellation);
    for (file, by_pid) in by_file {
        let requests = by_pid.into_iter().map(|(pid, wanted)| {
            let owner = owners.get(&pid).copied().flatten();
            (process_request(pid, owner, file.is_some(), &wanted), wanted)
        });
        asking.query_all(file.as_deref(), requests.collect());
    }
    asking.programs
}

/// Arguments that start this program as a helper.
#[cfg(not(test))]
const HELPER: &[&str] = &[VERB];
#[cfg(test)]
const HELPER: &[&str] = &["--exact", "tracer::symbols::tests::helper", "--ignored"];

/// True if this is the path of a file, and not the kernel's name of anonymous memory.
pub(super) fn is_path(path: &[u8]) -> bool {
    path.starts_with(b"/") && !path.starts_with(b"//")
}

/// Returns the part of a question that concerns a process.
fn process_request(
    pid: Pid,
    owner: Option<u32>,
    of_file: bool,
    wanted: &[UnresolvedAddress],
) -> ProcessRequest {
    let code = wanted.first().and_then(|it| it.code.as_ref());
    let mapped = code.map_or((0, 0), |it| (it.start, it.end));
    let place = |it: &UnresolvedAddress| if of_file { place(it) } else { it.address };
    ProcessRequest { pid, owner, mapped, places: wanted.iter().map(place).collect() }
}

/// Returns the offset of an address in its file.
fn place(wanted: &UnresolvedAddress) -> u64 {
    let code = wanted.code.as_ref();
    code.map_or(0, |it| it.offset.saturating_add(wanted.address.saturating_sub(it.start)))
}

/// Returns the symbol of an address; a name comes with the distance from its start.
fn symbol(wanted: &UnresolvedAddress, known: Option<FunctionOffset>) -> Symbol {
    let UnresolvedAddress { pid, address, since, code } = wanted;
    let (name, offset) = known.unwrap_or_default();
    let mut symbol =
        Symbol { pid: *pid, address: *address, since: *since, name, offset, ..Symbol::default() };
    if let Some(code) = code {
        symbol.module = code.file.path.clone();
        symbol.place = place(wanted);
        if let FileIdentity::BuildId(id) = &code.file.identity {
            symbol.build_id = id.clone();
        }
    }
    symbol
}

/// Part of a question, and the addresses that it covers.
type AddressOwner = (ProcessRequest, Vec<UnresolvedAddress>);

/// State of the questions to helpers.
#[derive(Debug)]
struct HelperSession<'a, 'p> {
    cancellation: &'a mut Cancellation<'p>,
    arguments: &'static [&'static str],
    bounds: ResourceLimits,
    until: KernelTime,
    names_bytes: usize,
    programs: Programs,
    /// The last file that could not be read.
    last_unread: Vec<u8>,
}

impl<'a, 'p> HelperSession<'a, 'p> {
    fn new(
        arguments: &'static [&'static str],
        bounds: ResourceLimits,
        cancellation: &'a mut Cancellation<'p>,
    ) -> Self {
        let all_ns = u64::try_from(ALL_TIME.as_nanos()).unwrap_or(u64::MAX);
        Self {
            cancellation,
            arguments,
            bounds,
            until: KernelTime(clock::now().0.saturating_add(all_ns)),
            names_bytes: 0,
            programs: Programs::default(),
            last_unread: Vec::new(),
        }
    }

    /// Asks about a file, or about the lists, of all these processes. Helpers run one after the
    /// other, until each process has a result or was the one whose copy killed a helper.
    fn query_all(&mut self, file: Option<&CodeFile>, mut waiting: Vec<AddressOwner>) {
        let path = file.map_or(LISTS, |it| &it.path);
        while !waiting.is_empty() {
            if clock::now() > self.until {
                let why = format!(
                    "no time was left: all together took more than {} s",
                    ALL_TIME.as_secs()
                );
                return self.give_up(path, &why, waiting);
            }
            if self.cancellation.is_cancelled() {
                return self.give_up(path, &HelperFailure::NotWaitedFor.to_string(), waiting);
            }
            let rest = waiting.split_off(waiting.len().min(PROCESSES_MAX));
            let (processes, mut wanted): (
                Vec<ProcessRequest>,
                Vec<Option<Vec<UnresolvedAddress>>>,
            ) = waiting.into_iter().map(|(request, wanted)| (request, Some(wanted))).unzip();
            let question = SymbolsQuestion { file: file.cloned(), processes };
            let HelperReply { answer, failure } = sandboxed_helper::run_helper(
                self.arguments,
                &question.encode(),
                &self.bounds,
                self.cancellation,
            );
            let SymbolsAnswer { groups, at_hand } =
                SymbolsAnswer::decode(&answer, &question.processes);
            // Earlier files may have used up the limits. In that case the current file is asked
            // about once more, first.
            let is_innocent =
                !groups.is_empty() && failure.as_ref().is_some_and(HelperFailure::is_of_all);
            groups.into_iter().for_each(|it| self.take(path, it, &mut wanted));
            let mut left: Vec<(usize, AddressOwner)> = question
                .processes
                .into_iter()
                .zip(wanted)
                .enumerate()
                .filter_map(|(place, (request, wanted))| Some((place, (request, wanted?))))
                .collect();
            // If no copy was announced, the first process is blamed, so that the loop makes
            // progress.
            let blamed = match at_hand.as_slice() {
                _ if is_innocent => Vec::new(),
                [] => left.iter().take(1).map(|it| it.0).collect(),
                _ => at_hand.clone(),
            };
            let lost = left.extract_if(.., |it| blamed.contains(&it.0)).map(|it| it.1).collect();
            let why =
                failure.map_or_else(|| "the answer makes no sense".to_owned(), |it| it.to_string());
            self.give_up(path, &why, lost);
            left.sort_by_key(|it| !at_hand.contains(&it.0));
            waiting = left.into_iter().map(|it| it.1).chain(rest).collect();
        }
    }

    /// Stores the result for a copy.
    fn take(&mut self, path: &[u8], group: Group, wanted: &mut [Option<Vec<UnresolvedAddress>>]) {
        let Group { state, found } = group;
        let why = match state {
            CopyState::Closed => {
                Some("it cannot be opened without privileges, and was not copied before")
            }
            CopyState::Unreadable => Some("it is not a readable ELF file"),
            CopyState::Read | CopyState::Cut | CopyState::Other | CopyState::Gone => None,
        };
        if let Some(why) = why {
            let wanted = found.iter().filter_map(|(place, _)| wanted.get(*place)?.as_ref());
            let addresses = wanted.map(Vec::len).sum();
            self.note_unread(path, why, addresses);
        }
        self.programs.cut += u64::from(state == CopyState::Cut);
        for (place, names) in found {
            let theirs = wanted.get_mut(place).and_then(Option::take).unwrap_or_default();
            let mut too_many = 0;
            for (wanted, name) in theirs.iter().zip(names) {
                let bytes = name.as_ref().map_or(0, |it| it.0.len());
                let has_room = self.names_bytes + bytes <= NAMES_BYTES_MAX;
                self.names_bytes += if has_room { bytes } else { 0 };
                too_many += usize::from(!has_room);
                self.programs.named.push(symbol(wanted, name.filter(|_| has_room)));
            }
            if too_many > 0 {
                self.note_unread(path, "all names together are too long to be kept", too_many);
            }
        }
    }

    /// Stores these addresses without names.
    fn give_up(&mut self, path: &[u8], why: &str, lost: Vec<AddressOwner>) {
        let wanted = lost.iter().flat_map(|it| &it.1);
        self.programs.named.extend(wanted.clone().map(|it| symbol(it, None)));
        self.note_unread(path, why, wanted.count());
    }

    fn note_unread(&mut self, path: &[u8], reason: &str, addresses: usize) {
        if addresses == 0 {
            return;
        }
        let addresses = addresses as u64;
        let unread = &mut self.programs.unread;
        unread.addresses += addresses;
        let is_new = self.last_unread != path;
        unread.files += u64::from(is_new);
        self.last_unread = path.to_vec();
        let path = path.escape_ascii().to_string();
        let is_last = |it: &&mut UnreadFile| it.path == path && it.reason == reason;
        if let Some(last) = unread.first.last_mut().filter(is_last) {
            last.addresses += addresses;
        } else if unread.first.len() < UNREAD_MAX {
            unread.first.push(UnreadFile { path, addresses, reason: reason.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cancellation::testing::{ended_by, endless};

    /// Runs this test program as a helper.
    #[test]
    #[ignore = "run by functions_of_our_own_are_found_in_our_file"]
    fn helper() {
        helper_main::answer().expect("there is a question");
    }

    #[test]
    fn functions_of_our_own_are_found_in_our_file() {
        let text = std::fs::read("/proc/self/maps").expect("our own");
        let address = functions_of_our_own_are_found_in_our_file as fn() as usize as u64 + 1;
        let mut seen = super::super::callchain_addresses::SeenChains::default();
        let pid = Pid(std::process::id().cast_signed());
        let which = crate::capture::fact::Text::MAPS;
        let time = KernelTime(5);
        seen.note_fact(&crate::capture::fact::Fact::Text { time, which, pid, text });
        let code = seen.at_for_tests(pid, address).expect("the test program is mapped");
        let wanted = vec![UnresolvedAddress { pid, address, since: time, code: Some(code) }];
        let Programs { named, unread, .. } = of_programs(wanted, &FxHashMap::default(), endless());
        let name = String::from_utf8_lossy(&named[0].name).into_owned();
        assert!(
            name.contains("functions_of_our_own_are_found_in_our_file"),
            "{named:?} {unread:?}"
        );
        assert_eq!((named[0].offset, named[0].since), (1, time));
        assert!(unread.is_nothing(), "{unread:?}");
    }

    #[test]
    fn functions_of_a_list_are_found() {
        let pid = Pid(std::process::id().cast_signed());
        let list = format!("/tmp/perf-{pid}.map");
        std::fs::write(&list, "1000 20 compiled\n").expect("it is written");
        let since = KernelTime(1);
        let wanted =
            [0x1005, 0x1021].map(|address| UnresolvedAddress { pid, address, since, code: None });
        let programs = of_programs(wanted.into(), &FxHashMap::default(), endless());
        std::fs::remove_file(&list).expect("the test owns the file");
        let found = programs.named.iter().map(|it| (it.name.as_slice(), it.offset));
        assert_eq!(Vec::from_iter(found), [(&b"compiled"[..], 5), (b"", 0)], "{programs:?}");
    }

    /// Runs a helper that dies at the copies of processes with even numbers, in the middle of its
    /// answer.
    #[test]
    #[ignore = "run by dying_helper_loses_only_its_current_file"]
    fn dies() {
        use std::io::Write;
        // The limits prevent a core dump.
        sandboxed_helper::limit(&helper_main::BOUNDS).expect("it is allowed");
        let (question, mut socket) =
            sandboxed_helper::received_question().expect("there is a question");
        let question = SymbolsQuestion::decode(&question).expect("a question");
        for (number, request) in question.processes.iter().enumerate() {
            protocol::begin(&mut socket, &[number]).expect("the tracer listens");
            if request.pid.0 % 2 == 0 {
                socket.write_all(&[0, 0]).expect("the tracer listens");
                std::process::abort();
            }
            let named = request.places.iter().map(|it| Some((format!("f{it}").into_bytes(), 1)));
            protocol::end(&mut socket, CopyState::Read, named).expect("the tracer listens");
        }
    }

    fn wanted(pid: i32, path: &str) -> Vec<UnresolvedAddress> {
        let identity = FileIdentity::BuildId(b"id".to_vec());
        let file = Arc::new(CodeFile { path: path.into(), identity });
        let code = Some(CodeMapping { start: 0, end: 9, offset: 0, file });
        let (pid, since) = (Pid(pid), KernelTime(1));
        let wanted = |address| UnresolvedAddress { pid, address, since, code: code.clone() };
        [3, 5].map(wanted).into()
    }

    fn all_of(asking: &mut HelperSession<'_, '_>, path: &str, pids: impl Iterator<Item = i32>) {
        let file = CodeFile { path: path.into(), identity: FileIdentity::BuildId(b"id".to_vec()) };
        let of =
            |pid| (process_request(Pid(pid), None, true, &wanted(pid, path)), wanted(pid, path));
        asking.query_all(Some(&file), pids.map(of).collect());
    }

    fn names(asking: &HelperSession<'_, '_>) -> Vec<(i32, String)> {
        let name = |it: &Symbol| (it.pid.0, String::from_utf8_lossy(&it.name).into_owned());
        asking.programs.named.iter().map(name).collect()
    }

    const DIES: &[&str] = &["--exact", "tracer::symbols::tests::dies", "--ignored"];

    #[test]
    fn dying_helper_loses_only_its_current_file() {
        let mut asking = HelperSession::new(DIES, helper_main::BOUNDS, endless());
        all_of(&mut asking, "/a\n", 1..=5);
        all_of(&mut asking, "/b", 7..=7);
        let expected = [1, 2, 3, 4, 5, 7].into_iter().flat_map(|pid| {
            [3, 5].map(|it| (pid, if pid % 2 == 1 { format!("f{it}") } else { String::new() }))
        });
        assert_eq!(names(&asking), Vec::from_iter(expected));
        let reason = "it took too much memory, or is damaged (SIGABRT)".to_owned();
        let first = vec![UnreadFile { path: r"/a\n".into(), addresses: 4, reason }];
        assert_eq!(asking.programs.unread, Unread { files: 1, addresses: 4, first });
    }

    /// Fails, or does not end, if a helper without an answer is asked again.
    #[test]
    fn silent_helper_is_abandoned() {
        let mut asking = HelperSession::new(&["--list"], helper_main::BOUNDS, endless());
        all_of(&mut asking, "/a", 1..=3);
        assert_eq!(asking.programs.named.len(), 6);
        let reason = "the answer makes no sense".to_owned();
        let first = vec![UnreadFile { path: "/a".into(), addresses: 6, reason }];
        assert_eq!(asking.programs.unread, Unread { files: 1, addresses: 6, first });
    }

    #[test]
    fn no_helper_is_queried_after_the_deadline() {
        let mut asking = HelperSession::new(DIES, helper_main::BOUNDS, endless());
        asking.until = KernelTime(0);
        for number in 0..UNREAD_MAX + 3 {
            all_of(&mut asking, &format!("/{number}"), 1..=1);
        }
        let Unread { files, addresses, first } = &asking.programs.unread;
        assert_eq!((*files, *addresses, first.len()), (19, 38, UNREAD_MAX));
        assert!(first[0].reason.starts_with("no time was left"), "{first:?}");
    }

    #[test]
    fn no_helper_is_queried_after_a_signal() {
        let mut asking = HelperSession::new(DIES, helper_main::BOUNDS, ended_by(libc::SIGINT));
        all_of(&mut asking, "/a", 1..=3);
        let reason = HelperFailure::NotWaitedFor.to_string();
        let first = vec![UnreadFile { path: "/a".into(), addresses: 6, reason }];
        assert_eq!(asking.programs.unread, Unread { files: 1, addresses: 6, first });
    }

    #[test]
    fn names_fit_or_are_reported() {
        let mut asking = HelperSession::new(DIES, helper_main::BOUNDS, endless());
        asking.names_bytes = NAMES_BYTES_MAX - 2;
        all_of(&mut asking, "/a", 1..=1);
        assert_eq!(names(&asking), [(1, "f3".to_owned()), (1, String::new())]);
        assert_eq!((asking.programs.unread.files, asking.programs.unread.addresses), (1, 1));
    }
}
