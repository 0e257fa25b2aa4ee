//! Conversion of an operation's values into the call that it was.

use super::fields::number;
use super::table::{Arg, IoriotRow};
use crate::capture::fact::NameOf;
use crate::event::syscall_table::CallId;
use crate::import::imported_event::{ImportedEvent, ImportedKind, ImportedTask, MemoryRead};

/// Address of the first path in memory.
const MEMORY: u64 = 0x7000_0000_0000;
/// Distance between the addresses of two paths.
const APART: u64 = 0x1_0000;

/// Bytes of a page, the unit in which i386 logs offsets of mappings.
const PAGE_BYTES: i64 = 4096;

/// Text that `SystemTap` prints for a string that it could not read.
const UNREADABLE: &[u8] = b"<unknown>";

/// Appends the events of an operation. `value`: the value after a letter; begins and ends in ns.
/// False: a value is missing.
pub(super) fn push<'a>(
    row: &IoriotRow,
    value: impl Fn(u8) -> Option<&'a [u8]>,
    task: ImportedTask,
    start: u64,
    end: u64,
    out: &mut Vec<ImportedEvent>,
) -> bool {
    let Some(call) = CallId::by_name(row.call) else { return false };
    // A read-ahead of a replay log has no result; it is 0 if it succeeds.
    let ret = match value(row.result) {
        Some(it) => number(it),
        None => (!row.order.contains(&row.result)).then_some(0),
    };
    let Some(ret) = ret else { return false };
    let moved = u64::try_from(ret).unwrap_or(0);
    let (mut args, mut reads) = ([0; 6], Vec::new());
    for (index, arg) in row.args.iter().enumerate() {
        let address = MEMORY + APART * index as u64;
        let register = match *arg {
            Arg::Key(letter) => value(letter).and_then(number).unwrap_or(0).cast_unsigned(),
            Arg::Pages(letter) => {
                let pages = value(letter).and_then(number).unwrap_or(0);
                pages.saturating_mul(PAGE_BYTES).cast_unsigned()
            }
            Arg::Path(letter) => {
                let Some(path) = value(letter) else { return false };
                if !path.starts_with(UNREADABLE) {
                    reads.push(MemoryRead::memory(NameOf::Argument, address, path.to_vec()));
                }
                address
            }
            Arg::At => i64::from(libc::AT_FDCWD).cast_unsigned(),
            Arg::Moved => moved,
            Arg::Vector => {
                let vector = [0, moved].map(u64::to_le_bytes).concat();
                reads.push(MemoryRead::memory(NameOf::Memory, address, vector));
                address
            }
            Arg::Zero => 0,
        };
        if let Some(place) = args.get_mut(index) {
            *place = register;
        }
    }
    if row.args.contains(&Arg::Vector) {
        args[2] = 1;
    }
    out.push(ImportedEvent { time: start, task, what: ImportedKind::Enter(call, args) });
    out.push(ImportedEvent { time: end, task, what: ImportedKind::Exit(call, ret, reads) });
    true
}
