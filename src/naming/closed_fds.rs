//! Descriptors that an event closes, or gives another file.

use crate::event::EventKind;
use crate::event::registers::low_half;
use crate::event::syscall_table::{CallClass, Role};
use crate::event::task::TaskEvent;

/// Descriptors that an event closes or gives another file, as far as its record contains them.
#[derive(Clone, Copy, Debug)]
pub(super) enum ClosedFds {
    /// No descriptor.
    Nothing,
    /// One descriptor of the process.
    One(u64),
    /// One or more descriptors of the process.
    OfProcess,
    /// One or more descriptors of any process.
    Any,
}

/// Returns the descriptors that the event closes.
pub(super) fn closes(kind: &EventKind) -> ClosedFds {
    match kind {
        EventKind::SysEnter(enter) => {
            let call = enter.call.call();
            let of = |role| {
                let register = call.arg(role).and_then(|it| enter.args.get(it));
                register.map_or(ClosedFds::Nothing, |it| ClosedFds::One(low_half(*it).into()))
            };
            match call.class {
                CallClass::Close => of(Role::Fd),
                CallClass::Dup => of(Role::Fd2),
                CallClass::CloseRange => ClosedFds::OfProcess,
                _ => ClosedFds::Nothing,
            }
        }
        // A close that began before the end of the open: the record does not contain the
        // descriptor.
        EventKind::SysExit(exit) => match exit.call.call().class {
            CallClass::Close | CallClass::Dup | CallClass::CloseRange => ClosedFds::OfProcess,
            _ => ClosedFds::Nothing,
        },
        EventKind::Task(TaskEvent::Comm { exec: true, .. } | TaskEvent::Exit { .. }) => {
            ClosedFds::OfProcess
        }
        // The lost record may be the close.
        EventKind::Lost(_) => ClosedFds::Any,
        // The record does not contain the closed descriptor.
        EventKind::Uring(event) if event.opcode().class() == CallClass::Close => {
            ClosedFds::OfProcess
        }
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
        | EventKind::Identity(_)
        | EventKind::Probed(_)
        | EventKind::Chain(_) => ClosedFds::Nothing,
    }
}
