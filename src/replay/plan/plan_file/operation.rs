//! Operation as a plan stores it.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Operation, like [`crate::replay::plan::planned_op::PlannedOp`]; values that are mostly equal or
/// close to those of the previous operation are stored as differences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation<'a> {
    /// Index into [`super::Index::calls`].
    pub call: u16,
    /// Captured registers. Known pointers are reduced to 1, or 0 for null. Descriptors have no
    /// meaning.
    pub args: [u64; 6],
    /// First descriptor.
    pub handle: Option<u32>,
    /// Second descriptor. A successful transfer without one writes to a sink, because the replay
    /// does not have its target.
    pub target: Option<u32>,
    /// Handle that the operation creates.
    pub makes: Option<u32>,
    /// File that the operation concerns, whose path is in NAMES.
    pub file: Option<u32>,
    /// Path from the root.
    #[serde(borrow)]
    pub path: Option<&'a [u8]>,
    /// Second path from the root.
    #[serde(borrow)]
    pub second_path: Option<&'a [u8]>,
    /// `O_*` flags that are passed in memory.
    pub flags: Option<u32>,
    /// Position in the file in bytes, if it is not passed in a register.
    pub offset: Option<u64>,
    /// Position in the second file in bytes, if it is not passed in a register.
    pub target_offset: Option<u64>,
    /// Requested bytes, if the lengths of the buffers are passed in memory.
    pub bytes: Option<u64>,
    /// Captured result.
    pub ret: i64,
    /// Time since the end of the worker's previous explicit operation. For the worker's first
    /// one, since the plan's first operation.
    pub gap: Nanos,
    /// Duration of the operation.
    pub took: Nanos,
    /// Number of ends of all operations between the end of the worker's previous operation and this
    /// one's.
    pub others: u64,
    /// Time from the end of the operation to the latest end among all operations before it in the
    /// plan, or 0. The dependencies of the operation are among these.
    pub behind: Nanos,
    /// Close that leaves the handle to other references.
    pub keeps_handle: bool,
    /// Implicit operation: no replayed call caused it, so it is neither counted nor compared. Only
    /// closes, unlocks (`LOCK_UN`), seeks and descriptor flags (`F_SETFD`).
    pub implicit: bool,
    /// Operations that this one waits for: worker, and index among that worker's operations.
    pub before: Vec<(u32, u32)>,
}
