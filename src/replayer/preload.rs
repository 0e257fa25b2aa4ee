//! Operations loaded before the replay begins, as far as memory allows: no helper then runs beside
//! a short replay.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

use zstd::bulk::Decompressor;

use super::load::{LoadedOps, NextFrame, PlanSource};
use crate::replay::plan_file::PlanError;
use crate::units::ReplayTime;

/// Memory limit in bytes, enough for about a million operations.
const BYTES_MAX: usize = 256 << 20;

/// First operations of a worker, and the position of its next ones.
#[derive(Debug, Default)]
pub(super) struct PreloadedWorker {
    pub(super) frames: Vec<LoadedOps>,
    pub(super) next: NextFrame,
}

/// First operations of all workers.
#[derive(Debug)]
pub(super) struct Preload(Vec<Mutex<PreloadedWorker>>);

impl Preload {
    /// Loads operations until the memory limit, the earliest first.
    ///
    /// # Errors
    ///
    /// The plan is damaged.
    pub(super) fn new(source: &PlanSource) -> Result<Self, PlanError> {
        let mut zstd = Decompressor::new()?;
        let mut all: Vec<PreloadedWorker> = Vec::new();
        all.resize_with(source.index.workers.len(), PreloadedWorker::default);
        let mut bytes = 0;
        let mut order: BinaryHeap<_> =
            (0..).zip(&all).map(|(at, _)| Reverse((ReplayTime::MIN, at))).collect();
        while let Some(Reverse((_, worker))) = order.pop()
            && bytes < BYTES_MAX
        {
            let Some(ready) = all.get_mut(worker as usize) else { continue };
            if let Some(loaded) = source.load(worker, ready.next, &mut zstd)? {
                bytes += loaded.bytes();
                ready.next = loaded.next;
                order.push(Reverse((ready.next.end, worker)));
                ready.frames.push(loaded);
            }
        }
        Ok(Self(all.into_iter().map(Mutex::new).collect()))
    }

    /// Takes the operations of a worker.
    pub(super) fn take(&self, worker: u32) -> PreloadedWorker {
        let ready = self.0.get(worker as usize).map(|it| it.lock());
        // No thread panics while it holds this lock.
        ready.map_or_else(PreloadedWorker::default, |lock| {
            std::mem::take(&mut lock.unwrap_or_else(PoisonError::into_inner))
        })
    }
}
