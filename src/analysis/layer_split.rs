//! Time of system calls by layer: each moment belongs to the deepest layer that was at work.

use crate::event::layer::Layer;
use crate::operation::model::SyscallOperation;
use crate::operation::span::Span;
use crate::units::KernelTime;

/// Layers in the order of their depth, the deepest last.
pub const LAYERS: [Layer; 7] = [
    Layer::Vfs,
    Layer::Fs,
    Layer::Cache,
    Layer::Journal,
    Layer::Throttle,
    Layer::Queue,
    Layer::Device,
];

/// Time of calls by layer; the times of all layers and the rest add up to that of the calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Number of calls.
    pub count: u64,
    /// Total time of the calls, ns.
    pub ns: u64,
    /// Time in which a layer was the deepest one at work, ns; in the order of [`LAYERS`].
    pub layers: [u64; LAYERS.len()],
}

impl Split {
    /// Returns the time in which no layer was at work, ns: before and after them, and where nothing
    /// was recorded.
    pub fn rest(&self) -> u64 {
        self.ns.saturating_sub(self.layers.iter().sum())
    }

    /// Adds other calls.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.ns = self.ns.saturating_add(other.ns);
        for (sum, ns) in self.layers.iter_mut().zip(other.layers) {
            *sum = sum.saturating_add(ns);
        }
    }

    /// Adds a call that has ended.
    pub fn add(&mut self, operation: &SyscallOperation) {
        let end = operation.end.unwrap_or(operation.start);
        self.count += 1;
        self.ns = self.ns.saturating_add(end.0.saturating_sub(operation.start.0));
        if operation.spans.is_empty() {
            return;
        }
        for (sum, ns) in self.layers.iter_mut().zip(deepest(&operation.spans, operation.start, end))
        {
            *sum = sum.saturating_add(ns);
        }
    }
}

fn place(layer: Layer) -> usize {
    LAYERS.iter().position(|it| *it == layer).unwrap_or(0)
}

/// Returns for each layer the time between these two in which it was the deepest one, ns.
fn deepest(spans: &[Span], from: KernelTime, to: KernelTime) -> [u64; LAYERS.len()] {
    // Beginnings and ends of spans.
    let mut edges: Vec<(KernelTime, usize, bool)> = Vec::with_capacity(2 * spans.len());
    for span in spans {
        let (begin, end) = (span.begin.max(from), span.end.min(to));
        if begin < end {
            edges.push((begin, place(span.layer), true));
            edges.push((end, place(span.layer), false));
        }
    }
    edges.sort_unstable();
    let mut sums = [0; LAYERS.len()];
    let mut at_work = [0_u32; LAYERS.len()];
    let mut last = from;
    for (time, layer, begins) in edges {
        if let Some(deepest) = at_work.iter().rposition(|it| *it > 0)
            && let Some(sum) = sums.get_mut(deepest)
        {
            *sum += time.0.saturating_sub(last.0);
        }
        last = time;
        if let Some(it) = at_work.get_mut(layer) {
            // At equal times ends precede beginnings, and each end has had its beginning.
            *it = if begins { *it + 1 } else { it.saturating_sub(1) };
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(layer: Layer, begin: u64, end: u64) -> Span {
        Span { layer, what: "x", begin: KernelTime(begin), end: KernelTime(end) }
    }

    #[track_caller]
    fn check(spans: &[Span], expected: [u64; LAYERS.len()]) {
        assert_eq!(deepest(spans, KernelTime(100), KernelTime(200)), expected);
    }

    #[test]
    fn each_moment_belongs_to_the_deepest() {
        use Layer::{Device, Fs, Queue, Vfs};
        check(&[], [0; 7]);
        check(&[span(Vfs, 110, 190)], [80, 0, 0, 0, 0, 0, 0]);
        let nested = [
            span(Queue, 140, 145),
            span(Device, 145, 165),
            span(Fs, 120, 180),
            span(Vfs, 110, 190),
        ];
        check(&nested, [20, 35, 0, 0, 0, 5, 20]);
        // Two requests at once do not take twice the time.
        check(&[span(Device, 120, 150), span(Device, 130, 160)], [0, 0, 0, 0, 0, 0, 40]);
        check(&[span(Queue, 120, 150), span(Device, 130, 160)], [0, 0, 0, 0, 0, 10, 30]);
        // Time outside of the call does not count.
        check(&[span(Device, 0, 110), span(Device, 190, 900)], [0, 0, 0, 0, 0, 0, 20]);
        check(&[span(Device, 0, 50), span(Device, 150, 150)], [0; 7]);
    }

    proptest! {
        /// Fails if the result differs from that of checking each nanosecond.
        #[test]
        fn split_equals_the_sum_of_moments(
            all in prop::collection::vec((0..LAYERS.len(), 0_u64..60, 0_u64..40), 0..12),
        ) {
            let spans: Vec<Span> =
                all.iter().map(|it| span(LAYERS[it.0], it.1, it.1 + it.2)).collect();
            let mut expected = [0; LAYERS.len()];
            for time in 10_u64..70 {
                let there = |it: &&Span| it.begin.0 <= time && time < it.end.0;
                if let Some(deepest) = spans.iter().filter(there).map(|it| it.layer).max() {
                    expected[place(deepest)] += 1;
                }
            }
            prop_assert_eq!(deepest(&spans, KernelTime(10), KernelTime(70)), expected);
        }
    }
}
