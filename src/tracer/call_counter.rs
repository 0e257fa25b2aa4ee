//! Counter of the calls that ask about files, where they are not recorded.
//!
//! Programs make such calls (`stat`, `access`, `readlink`) in great number, so they are not in the
//! default set of events. An instance of tracefs counts them: it has the ends of these calls, the
//! list of threads of the recording, and rings of a few pages that nothing reads. The kernel itself
//! counts what it overwrites there. A counted call costs the program one event, a recorded one two
//! events and a name.

use std::cell::Cell;
use std::io;

use crate::event::syscall_table::{CallClass, CallId};
use crate::sys::instance_pool;
use crate::sys::ring::page_bytes;
use crate::sys::tracefs::Tracefs;
use crate::sys::tracefs_instance::Instance;

/// Group of the counted calls.
const GROUP: &str = "stat";

/// Purpose of the instance.
const PURPOSE: &str = "counter";

/// An instance whose rings nothing reads.
#[derive(Debug)]
pub struct CallCounter {
    instance: Instance,
    /// False after an error: the count is not known then, and the recording goes on.
    is_right: Cell<bool>,
}

impl CallCounter {
    /// Makes the counter, switched off. `None`: calls of the group are recorded, or opens are not,
    /// or this kernel cannot count the calls.
    pub(super) fn open(tracefs: &Tracefs, recorded: &[CallId]) -> Option<Self> {
        let opens = recorded.iter().any(|call| call.call().class == CallClass::Open);
        if !opens || recorded.iter().any(is_counted) {
            return None;
        }
        Self::make(tracefs).ok()
    }

    fn make(tracefs: &Tracefs) -> io::Result<Self> {
        let instance = instance_pool::obtain(tracefs, PURPOSE)?;
        instance.write("options/overwrite", "1")?;
        let _ = instance.write("options/block", "0");
        instance.set_ring_bytes(page_bytes())?;
        let mut count = 0_u32;
        for call in CallId::all().filter(is_counted) {
            let event = format!("events/syscalls/sys_exit_{}/enable", call.call().name);
            match instance.write(&event, "1") {
                Ok(()) => count += 1,
                // A call without a tracepoint is unknown to this kernel.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if count == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self { instance, is_right: Cell::new(true) })
    }

    /// Gives the instance the list of the recorded threads; `fill` returns false if threads keep
    /// appearing that are not in the list.
    pub(super) fn follow(&self, fill: impl FnOnce(&Instance) -> io::Result<bool>) {
        if !fill(&self.instance).unwrap_or(false) {
            self.is_right.set(false);
        }
    }

    /// Gives the instance up.
    pub(super) fn into_instance(self) -> Instance {
        self.instance
    }

    /// Switches the counter on or off. An error makes the count unknown, and the recording goes on.
    pub(super) fn switch(&self, on: &str) {
        if self.instance.write("tracing_on", on).is_err() {
            self.is_right.set(false);
        }
    }

    /// Returns the number of calls so far; `None`: the kernel does not tell.
    pub(super) fn count(&self, cpus: &[u32]) -> Option<u64> {
        if !self.is_right.get() {
            return None;
        }
        let mut sum = 0_u64;
        for cpu in cpus {
            let stats = self.instance.stats(*cpu).ok()?;
            sum += stats.entries + stats.overrun + stats.dropped + stats.read;
        }
        Some(sum)
    }
}

fn is_counted(call: &CallId) -> bool {
    call.call().class.group() == GROUP
}
