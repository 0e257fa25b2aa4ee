//! Row numbers: system calls as small values.

use super::call::{Call, row};
use super::class::{CallClass, DEFAULT_GROUPS};
use super::role::Role;
use crate::event::syscall_rows::CALLS;

/// Row number in [`CALLS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u16);

impl CallId {
    /// Returns the row.
    pub fn call(self) -> &'static Call {
        static UNKNOWN: Call =
            row("unknown", u32::MAX, None, CallClass::Control, [Role::Opaque; 6]);
        CALLS.get(usize::from(self.0)).unwrap_or(&UNKNOWN)
    }

    /// Returns all rows.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..).map(Self).take(CALLS.len())
    }

    /// Returns the row of this name: the tracepoint's.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|it| it.call().name == name)
    }

    /// Returns the row of a name that users know: the tracepoint's, or the C library's (`stat`,
    /// `sendfile`).
    pub fn by_common_name(name: &str) -> Option<Self> {
        let names = [name.to_owned(), format!("new{name}"), format!("{name}64")];
        names.iter().find_map(|it| Self::by_name(it))
    }

    /// Returns true if a call that was entered as this one may end as that one. On x86 a program
    /// begins as if by `execve`, also after `execveat` (`set_personality_64bit()` in
    /// `arch/x86/kernel/process_64.c`).
    pub fn ends_as(self, exit: Self) -> bool {
        self == exit || self.call().is_exec() && exit.call().is_exec()
    }

    /// Returns the calls that are recorded by default.
    pub fn default_set() -> impl Iterator<Item = Self> {
        Self::all().filter(|it| DEFAULT_GROUPS.contains(&it.call().class.group()))
    }
}
