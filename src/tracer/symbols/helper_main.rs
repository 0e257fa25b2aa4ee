//! Helper process that finds function names: opens the files of a question, gives up its
//! privileges, reads the files, and answers.
//!
//! Files named in a file (`.gnu_debuglink`) are not opened: such a name may be made to deceive.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

use super::super::executable_mappings::CodeFile;
use super::file_access::{FileAccessTable, give_up_rights, is_same};
use super::perf_map;
use super::protocol::{self, CopyState, ProcessRequest, SymbolsQuestion};
use crate::sys::sandboxed_helper::{self, ResourceLimits};

/// Limits of one question.
pub(in super::super) const BOUNDS: ResourceLimits = ResourceLimits {
    time: Duration::from_secs(30),
    cpu: Duration::from_secs(10),
    memory_bytes: 1 << 30,
    // The files themselves are mapped.
    address_bytes: 16 << 30,
    answer_bytes: 64 << 20,
};

/// Answers the question at standard input.
///
/// # Errors
///
/// The question is missing, the privileges cannot be given up, or the reader of the answer is gone.
pub fn answer() -> io::Result<()> {
    sandboxed_helper::limit(&BOUNDS)?;
    let (question, socket) = sandboxed_helper::received_question()?;
    let question = SymbolsQuestion::decode(&question);
    let SymbolsQuestion { file, processes } =
        question.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let mut out = BufWriter::new(socket);
    match file {
        Some(file) => of_file(&file, &processes, &mut out)?,
        None => of_lists(&processes, &mut out)?,
    }
    out.flush()
}

fn of_file(file: &CodeFile, processes: &[ProcessRequest], out: &mut impl Write) -> io::Result<()> {
    let mut copies = FileAccessTable::new();
    let mut waiting = BTreeMap::new();
    for (number, it) in processes.iter().enumerate() {
        waiting.insert(number, copies.candidates(it.pid, it.mapped.0, it.mapped.1, file));
    }
    give_up_rights()?;
    loop {
        let mut by_copy: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (process, candidates) in &waiting {
            if let Some(copy) = candidates.front() {
                by_copy.entry(*copy).or_default().push(*process);
            }
        }
        if by_copy.is_empty() {
            break;
        }
        for (number, theirs) in by_copy {
            let Some(path) = copies.path(number) else { continue };
            protocol::begin(out, &theirs)?;
            if File::open(&path).is_err() {
                protocol::end(out, CopyState::Closed, [])?;
            } else if is_same(&path, &file.identity) {
                of_copy(&path, processes, &theirs, out)?;
            } else {
                protocol::end(out, CopyState::Other, [])?;
                for it in theirs {
                    waiting.get_mut(&it).and_then(VecDeque::pop_front);
                }
                continue;
            }
            waiting.retain(|it, _| !theirs.contains(it));
        }
    }
    let gone: Vec<usize> = waiting.into_keys().collect();
    if !gone.is_empty() {
        protocol::begin(out, &gone)?;
        protocol::end(out, CopyState::Gone, [])?;
    }
    Ok(())
}

/// Returns the functions of a file at the addresses of these processes, from its own symbol tables.
/// Debug information is not used: it is in other files, which this file names, and the library
/// opens any file of that name.
fn of_copy(
    path: &Path,
    processes: &[ProcessRequest],
    theirs: &[usize],
    out: &mut impl Write,
) -> io::Result<()> {
    let requests = theirs.iter().filter_map(|it| processes.get(*it));
    // One byte earlier is inside the call instruction.
    let places: Vec<u64> =
        requests.flat_map(|it| &it.places).map(|it| it.saturating_sub(1)).collect();
    let mut elf = Elf::new(path);
    elf.debug_syms = false;
    let name = |found: Symbolized<'_>| match found {
        Symbolized::Sym(symbol) => {
            Some((symbol.name.as_bytes().to_vec(), symbol.offset as u64 + 1))
        }
        Symbolized::Unknown(_) => None,
    };
    // One symbolizer for each file: it caches files by their paths, and a path is reused for
    // another file later.
    let symbolizer =
        Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build();
    match symbolizer.symbolize(&Source::Elf(elf), Input::FileOffset(&places)) {
        Ok(found) => protocol::end(out, CopyState::Read, found.into_iter().map(name)),
        Err(_) => protocol::end(out, CopyState::Unreadable, []),
    }
}

fn of_lists(processes: &[ProcessRequest], out: &mut impl Write) -> io::Result<()> {
    let opened: Vec<_> = processes.iter().map(|it| perf_map::open(it.pid, it.owner)).collect();
    give_up_rights()?;
    for ((number, list), request) in opened.into_iter().enumerate().zip(processes) {
        protocol::begin(out, &[number])?;
        let Some((list, bytes)) = list else {
            protocol::end(out, CopyState::Gone, [])?;
            continue;
        };
        let addresses: BTreeSet<u64> = request.places.iter().copied().collect();
        let (named, is_cut) = perf_map::listed(list, bytes, &addresses);
        let named = request.places.iter().map(|it| named.get(it).cloned());
        protocol::end(out, if is_cut { CopyState::Cut } else { CopyState::Read }, named)?;
    }
    Ok(())
}
