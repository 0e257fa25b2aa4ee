//! What every call needs to know besides itself.

use std::cell::RefMut;
use std::rc::Rc;

use super::fd_table::{Description, FdTable, Slot};
use super::file_names::FileNames;
use super::mappings::Mappings;
use super::model::OpenFile;
use super::process::Process;
use super::task::Task;
use crate::event::syscall_table::{Call, CallId, Class, Role};
use crate::units::Fd;

/// What is the same for all calls at a moment. The tracker has one.
#[derive(Debug)]
pub struct Context {
    /// Number for the next open file.
    next_file: u64,
    /// Names of all open files.
    pub names: FileNames,
    /// How many losses there have been.
    pub losses: u32,
    /// What the capture follows.
    pub followed: Followed,
}

/// Whether all calls were recorded that change descriptors and positions. What is not recorded cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// All calls that end descriptors or put others in their place. (What is made unseen has a number that is free.)
    pub descriptors: bool,
    /// All of those, and all that move positions or change how they move.
    pub positions: bool,
    /// All calls that change working directories.
    pub directories: bool,
    /// All calls that change roots.
    pub roots: bool,
    /// The ends of the calls that start programs, whatever else.
    pub execs: bool,
    /// The ends of waits.
    pub waits: bool,
    /// All calls that change mappings, and how large pages are.
    pub mappings: Option<u64>,
}

impl Followed {
    /// Everything but the ends of execs, without which no program is taken for one of another table.
    pub const ALL: Self = Self {
        descriptors: true,
        positions: true,
        directories: true,
        roots: true,
        execs: false,
        waits: false,
        mappings: Some(4096),
    };

    /// What can be followed on a machine of this kind with these calls.
    pub fn with(recorded: &[CallId], machine: &str, execs: bool, page_bytes: u64) -> Self {
        let all = |classes: &[Class]| {
            CallId::all()
                .filter(|it| it.call().number(machine).is_some())
                .filter(|it| classes.contains(&it.call().class))
                .all(|it| recorded.contains(&it))
        };
        let mapping_calls = CallId::all().filter(|it| it.call().changes_mappings());
        let all_mappings = mapping_calls.into_iter().all(|it| recorded.contains(&it));
        let descriptors = all(&[Class::Close, Class::CloseRange, Class::Dup]);
        let positions =
            all(&[Class::Control, Class::Read, Class::Write, Class::Seek, Class::Transfer]);
        Self {
            descriptors,
            positions: descriptors && positions,
            directories: all(&[Class::Place]),
            roots: all(&[Class::Root]),
            execs,
            waits: false,
            mappings: (all_mappings && page_bytes > 0).then_some(page_bytes),
        }
    }
}

impl Context {
    /// At the beginning of a capture.
    pub fn new(followed: Followed) -> Self {
        Self { next_file: 0, names: FileNames::default(), losses: 0, followed }
    }

    /// The files in the memory of the process, if the call concerns them and they are known.
    pub(super) fn memory<'a>(
        &self,
        call: &Call,
        process: &'a Process,
    ) -> Option<(RefMut<'a, Mappings>, u64)> {
        let is_of_memory = matches!(call.class, Class::Map | Class::Sync);
        let concerns = is_of_memory && (call.maps() || call.arg(Role::Address).is_some());
        let page_bytes = self.followed.mappings.filter(|_| concerns)?;
        let mut memory = process.memory.borrow_mut();
        memory.doubt_since(self.losses);
        Some((memory, page_bytes))
    }

    /// A newly opened file.
    pub(super) fn file(&mut self, flags: Option<u32>, pre_created: bool) -> OpenFile {
        let id = self.next_file;
        self.next_file += 1;
        OpenFile { id, path: None, first_path: None, given: None, stat: None, flags, pre_created }
    }

    /// The descriptor's file; one without a name if it was never heard of.
    pub fn description(&mut self, task: Task<'_>, fd: Fd) -> Rc<Description> {
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
        self.make_up(&mut table, fd)
    }

    /// A descriptor was there before it was heard of.
    pub fn make_up(&mut self, table: &mut FdTable, fd: Fd) -> Rc<Description> {
        let description = Rc::new(Description::unknown(self.file(None, true), self.losses));
        table.note(fd, Slot { description: Rc::clone(&description), cloexec: None });
        description
    }
}
