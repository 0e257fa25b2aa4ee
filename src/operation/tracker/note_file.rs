//! Opens and writes that the attribution of block requests needs.

use crate::event::syscall_table::CallClass;
use crate::operation::attribution::{FileAttribution, WriterRef};
use crate::operation::model::{SyscallOperation, ThreadInfo};

/// Records the opens and writes that the attribution of block requests needs.
pub(super) fn note_file(
    files: &mut FileAttribution,
    operation: &SyscallOperation,
    by: &ThreadInfo,
) {
    let done = operation.ret.and_then(|it| u64::try_from(it).ok());
    let written = match operation.call.call().class {
        CallClass::Open => {
            let read = operation.end.unwrap_or(operation.start);
            return operation.file.iter().for_each(|it| files.opened(it, read));
        }
        CallClass::Write => operation.file.as_ref().map(|it| (it, operation.offset)),
        CallClass::Transfer => operation.target.as_ref().map(|it| (&it.1, operation.target_offset)),
        _ => None,
    };
    if let (Some((file, offset)), Some(bytes)) = (written, done) {
        let by = WriterRef { process: by.process, pid: operation.pid, comm: &by.comm };
        files.wrote(by, file, offset, bytes);
    }
}
