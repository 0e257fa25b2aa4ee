//! Context of the calls: state that all calls of a capture share.

use std::cell::RefMut;
use std::rc::Rc;

use super::fd_table::{Description, FdTable, Slot};
use super::file_names::FileNames;
use super::mappings::Mappings;
use super::model::OpenFile;
use super::process::Process;
use super::task::TaskView;
use crate::event::syscall_table::{Call, CallClass, CallId, Role};
use crate::units::Fd;

/// State that is the same for all calls at a moment. The tracker has one.
#[derive(Debug)]
pub struct Context {
    /// Number for the next open file.
    next_file: u64,
    /// Names of all open files.
    pub names: FileNames,
    /// Number of losses so far.
    pub losses: u32,
    /// Kinds of calls that were recorded.
    pub followed: Observability,
}

/// Kinds of state whose changes were all recorded. State with unrecorded changes cannot be
/// followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observability {
    /// All calls that close descriptors or replace their files. (A descriptor that is made unseen
    /// has a number that was free.)
    pub descriptors: bool,
    /// All of the former, and all that move positions or change how they move.
    pub positions: bool,
    /// All calls that change working directories.
    pub directories: bool,
    /// All calls that change roots.
    pub roots: bool,
    /// The ends of the calls that start programs, whatever else.
    pub execs: bool,
    /// The beginnings of these calls, too.
    pub exec_entries: bool,
    /// The ends of waits.
    pub waits: bool,
    /// All calls that change mappings; the size of a page.
    pub mappings: Option<u64>,
}

/// Classes of the calls that move positions or change how they move.
pub(super) const POSITION_CLASSES: [CallClass; 5] =
    [CallClass::Control, CallClass::Read, CallClass::Write, CallClass::Seek, CallClass::Transfer];

impl Observability {
    /// Everything but the ends of execs: without those, no program is assigned to another table.
    pub const ALL: Self = Self {
        descriptors: true,
        positions: true,
        directories: true,
        roots: true,
        execs: false,
        exec_entries: true,
        waits: false,
        mappings: Some(4096),
    };

    /// Returns the state that can be followed on a machine of this kind with these recorded calls.
    pub fn with(recorded: &[CallId], machine: &str, execs: bool, page_bytes: u64) -> Self {
        let all = |classes: &[CallClass]| {
            CallId::all()
                .filter(|it| it.call().number(machine).is_some())
                .filter(|it| classes.contains(&it.call().class))
                .all(|it| recorded.contains(&it))
        };
        let mapping_calls = CallId::all().filter(|it| it.call().changes_mappings());
        let all_mappings = mapping_calls.into_iter().all(|it| recorded.contains(&it));
        let descriptors = all(&[CallClass::Close, CallClass::CloseRange, CallClass::Dup]);
        let positions = all(&POSITION_CLASSES);
        let all_execs = CallId::all().filter(|id| id.call().is_exec());
        Self {
            descriptors,
            positions: descriptors && positions,
            directories: all(&[CallClass::Place]),
            roots: all(&[CallClass::Root]),
            execs,
            exec_entries: all_execs.into_iter().all(|it| recorded.contains(&it)),
            waits: false,
            mappings: (all_mappings && page_bytes > 0).then_some(page_bytes),
        }
    }
}

impl Context {
    /// Returns the context at the beginning of a capture.
    pub fn new(followed: Observability) -> Self {
        Self { next_file: 0, names: FileNames::default(), losses: 0, followed }
    }

    /// Returns the mapped files of the process, if the call concerns them and they are known.
    pub(super) fn memory<'a>(
        &self,
        call: &Call,
        process: &'a Process,
    ) -> Option<(RefMut<'a, Mappings>, u64)> {
        let is_of_memory = matches!(call.class, CallClass::Map | CallClass::Sync);
        let concerns = is_of_memory && (call.maps() || call.arg(Role::Address).is_some());
        let page_bytes = self.followed.mappings.filter(|_| concerns)?;
        let mut memory = process.memory.borrow_mut();
        memory.doubt_since(self.losses);
        Some((memory, page_bytes))
    }

    /// Returns a newly opened file.
    pub(super) fn file(&mut self, flags: Option<u32>, pre_created: bool) -> OpenFile {
        let id = self.next_file;
        self.next_file += 1;
        OpenFile { id, path: None, first_path: None, given: None, stat: None, flags, pre_created }
    }

    /// Returns the descriptor's file; one without a name if the descriptor is not known.
    pub fn description(&mut self, task: TaskView<'_>, fd: Fd) -> Rc<Description> {
        let mut table = task.fds().borrow_mut();
        if let Some(known) = table.get(fd, self.losses) {
            if !self.followed.descriptors {
                known.doubt();
            }
            if !self.followed.positions {
                known.forget_position();
            }
            return known;
        }
        self.synthesize(&mut table, fd)
    }

    /// Adds a descriptor that was open before its first record.
    pub fn synthesize(&mut self, table: &mut FdTable, fd: Fd) -> Rc<Description> {
        let description = Rc::new(Description::unknown(self.file(None, true), self.losses));
        table.note(fd, Slot { description: Rc::clone(&description), cloexec: None });
        description
    }
}
