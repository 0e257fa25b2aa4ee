//! Descriptors that an event closes, or gives to another file.

use crate::event::EventKind;
use crate::event::syscall_table::{Class, Role};
use crate::event::task::TaskEvent;

/// Descriptors that an event closes or gives to another file, as far as its record says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Closes {
    /// None.
    Nothing,
    /// This one of the process.
    One(u64),
    /// One or more of the process.
    OfProcess,
    /// One or more of anybody.
    Any,
}

/// The kernel takes a descriptor from the lower half of its register.
pub(super) fn low_half(register: u64) -> u64 {
    register & 0xffff_ffff
}

/// Descriptors that the event closes.
pub(super) fn closes(kind: &EventKind) -> Closes {
    match kind {
        EventKind::SysEnter(enter) => {
            let call = enter.call.call();
            let of = |role| {
                let register = call.arg(role).and_then(|it| enter.args.get(it));
                register.map_or(Closes::Nothing, |it| Closes::One(low_half(*it)))
            };
            match call.class {
                Class::Close => of(Role::Fd),
                Class::Dup => of(Role::Fd2),
                Class::CloseRange => Closes::OfProcess,
                _ => Closes::Nothing,
            }
        }
        // A close that began before the open ended: which descriptor is not said here.
        EventKind::SysExit(exit) => match exit.call.call().class {
            Class::Close | Class::Dup | Class::CloseRange => Closes::OfProcess,
            _ => Closes::Nothing,
        },
        EventKind::Task(TaskEvent::Comm { exec: true, .. } | TaskEvent::Exit { .. }) => {
            Closes::OfProcess
        }
        // The close may be what was lost.
        EventKind::Lost(_) => Closes::Any,
        // Which one it closes is not said.
        EventKind::Uring(event) if event.opcode().class() == Class::Close => Closes::OfProcess,
        EventKind::Uring(_)
        | EventKind::Task(_)
        | EventKind::Block(_)
        | EventKind::Fault(_)
        | EventKind::FileIo(_)
        | EventKind::Layer(_)
        | EventKind::Fs(_)
        | EventKind::SeenFd(_)
        | EventKind::FileSystems(_)
        | EventKind::Places(_)
        | EventKind::Probed(_)
        | EventKind::Chain(_) => Closes::Nothing,
    }
}
