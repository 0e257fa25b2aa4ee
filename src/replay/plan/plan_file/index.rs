//! Index of a plan: everything except operations and files.

use serde::{Deserialize, Serialize};

use super::limits::{self, CALLS_MAX, GIVEN_MAX, WORKERS_MAX};
use crate::units::Nanos;

/// Worker of the replay: a captured thread, or a lane that executes asynchronous operations of a
/// captured thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerPlan {
    /// Captured process ID.
    pub pid: i32,
    /// Captured thread ID.
    pub tid: i32,
    /// Name of the thread when it was first seen.
    pub comm: Vec<u8>,
    /// Index among the thread's lanes; `None`: the thread itself.
    pub lane: Option<u32>,
    /// Operation that the first one waits for: worker, and index among that worker's operations.
    pub before: Option<(u32, u32)>,
    /// True if other workers wait for some of its operations.
    pub is_waited_for: bool,
    /// Number of explicit operations.
    pub operations: u32,
    /// Offsets of its frames in the file, in bytes, in order.
    pub frames: Vec<u64>,
}

/// Descriptor that is open before the first operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InheritedFdPlan {
    /// Handle of the descriptor.
    pub handle: u32,
    /// Path from the root.
    pub path: Vec<u8>,
    /// `O_*` flags, if known.
    pub flags: Option<u32>,
    /// Position in bytes.
    pub offset: u64,
}

/// Call that the replay makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPlan {
    /// Name of its tracepoint.
    pub name: String,
    /// Captured asynchronous operation that the call replaces (`aio:PREAD`).
    pub asynchronous: Option<String>,
}

impl CallPlan {
    /// Returns the name of the captured call or asynchronous operation.
    pub fn captured_name(&self) -> &str {
        self.asynchronous.as_ref().unwrap_or(&self.name)
    }
}

/// Operations that are not replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedOps {
    /// Word for the reason: [`crate::replay::plan::replayability::SkipReason::as_str`].
    pub reason: String,
    /// Call or asynchronous operation.
    pub call: String,
    /// Number of operations.
    pub count: u64,
}

/// Everything except operations and files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Kind of machine that registers, flags and error numbers belong to (`uname -m`).
    pub machine: String,
    /// Calls that the replay makes.
    #[serde(deserialize_with = "limits::at_most::<_, _, CALLS_MAX>")]
    pub calls: Vec<CallPlan>,
    /// Workers that execute the operations.
    #[serde(deserialize_with = "limits::at_most::<_, _, WORKERS_MAX>")]
    pub workers: Vec<WorkerPlan>,
    /// Descriptors open before the first operation.
    #[serde(deserialize_with = "limits::at_most::<_, _, GIVEN_MAX>")]
    pub given: Vec<InheritedFdPlan>,
    /// Operations that are not replayed, in the order of reasons and calls.
    #[serde(deserialize_with = "limits::at_most::<_, _, CALLS_MAX>")]
    pub left: Vec<SkippedOps>,
    /// Operations whose effect is contained in replayed ones.
    pub followed: u64,
    /// Operations that found a state other than the one left by the operations before them.
    pub unexplained: u64,
    /// Highest number of descriptors open at one time.
    pub handles: u32,
    /// Time from the begin of the first operation to the end of the last one.
    pub span: Nanos,
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// Lengths of the longest write and of the longest read, in bytes.
    pub longest: [u64; 2],
    /// Offset of the FILES frame in the file, in bytes.
    pub files_at: u64,
    /// Offset of the NAMES frame in the file, in bytes.
    pub names_at: u64,
}

impl Index {
    /// Returns all names in the index that come from a fixed set of words.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        let calls = self.calls.iter().map(|it| it.name.as_str());
        let others = self.calls.iter().filter_map(|it| it.asynchronous.as_deref());
        let left = self.left.iter().flat_map(|it| [it.reason.as_str(), it.call.as_str()]);
        calls.chain(others).chain(left).chain([self.machine.as_str()])
    }
}
