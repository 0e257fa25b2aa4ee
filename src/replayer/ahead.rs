//! What is made ready before the first operation, as far as there is memory for it: nothing else works then while a short replay runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

use zstd::bulk::Decompressor;

use super::load::{Loaded, Next, Source};
use crate::replay::plan_file::PlanError;

/// Memory for it, in bytes: about a million operations.
const BYTES_MAX: usize = 256 << 20;

/// The first operations of a worker, and where the next ones are.
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub(super) frames: Vec<Loaded>,
    pub(super) next: Next,
}

/// The first operations of all of them.
#[derive(Debug)]
pub(super) struct Ahead(Vec<Mutex<Ready>>);

impl Ahead {
    /// As much as there is memory for, the earliest first.
    ///
    /// # Errors
    ///
    /// The plan is damaged.
    pub(super) fn new(source: &Source) -> Result<Self, PlanError> {
        let mut zstd = Decompressor::new()?;
        let mut all: Vec<Ready> = Vec::new();
        all.resize_with(source.index.workers.len(), Ready::default);
        let mut bytes = 0;
        let mut order: BinaryHeap<_> = (0..).zip(&all).map(|(at, _)| Reverse((0, at))).collect();
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

    /// A worker's.
    pub(super) fn take(&self, worker: u32) -> Ready {
        let ready = self.0.get(worker as usize).map(|it| it.lock());
        // Nobody panics while it is held.
        ready.map_or_else(Ready::default, |it| {
            std::mem::take(&mut it.unwrap_or_else(PoisonError::into_inner))
        })
    }
}
