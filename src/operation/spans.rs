//! Spans inside system calls: begun and ended by events of one thread, and stored with the call
//! that contains them.

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::access::is_passed_on;
use super::model::SyscallOperation;
use super::span::Span;
use crate::block::BlockRequest;
use crate::event::layer::{COMMIT, Edge, IOMAP_DIO, Layer, LayerEvent};
use crate::event::syscall_table::CallClass;
use crate::units::{DevId, KernelTime, Tid};

/// Limit of the spans of one call. A write has one span for each folio, so a large write has many.
/// Spans beyond the limit are counted.
pub const SPANS_MAX: usize = 1 << 18;

/// Limit of nested spans; a kernel thread that makes no calls would keep all spans whose ends are
/// lost.
const DEPTH_MAX: usize = 64;

/// Open spans of one thread.
#[derive(Clone, Debug, Default)]
pub struct OpenSpans {
    open: Vec<(&'static str, KernelTime)>,
    /// Time of the last begin or end in this call.
    last: Option<KernelTime>,
}

impl OpenSpans {
    /// Clears the spans at the begin or end of a call; returns the number of those that were begun
    /// and not ended.
    pub(super) fn clear(&mut self) -> usize {
        self.last = None;
        // The end of direct I/O is not always recorded.
        std::mem::take(&mut self.open).iter().filter(|it| it.0 != IOMAP_DIO).count()
    }

    /// Takes the next event of the thread, which is inside a call since `call`. Returns the span
    /// that the event ends; `Err`: the event begins nothing, and ends nothing that was begun.
    pub(super) fn hit(
        &mut self,
        hit: &LayerEvent,
        time: KernelTime,
        call: Option<KernelTime>,
    ) -> Result<Option<Span>, ()> {
        let span = |begin: KernelTime, end: KernelTime| {
            Ok(Some(Span { layer: hit.layer, what: hit.what, begin, end }))
        };
        match hit.edge {
            // Deeper than any real nesting: ends were lost.
            Edge::Begin if self.open.len() >= DEPTH_MAX => Err(()),
            Edge::Begin => {
                self.open.push((hit.what, time));
                self.last = Some(time);
                Ok(None)
            }
            Edge::End => {
                // Spans above it have lost their ends.
                let place = self.open.iter().rposition(|it| it.0 == hit.what).ok_or(())?;
                let begin = self.open.get(place).map_or(time, |it| it.1);
                self.open.truncate(place);
                self.last = Some(time);
                span(begin, time)
            }
            Edge::Since => {
                // Outside of calls (a page fault, a kernel thread) the begin is not known.
                let begin = call.map(|it| self.last.unwrap_or(it));
                self.last = Some(time);
                begin.map_or(Ok(None), |it| span(it, time))
            }
            Edge::Pause(ms) => {
                let ns = u64::try_from(ms).unwrap_or(0).saturating_mul(1_000_000);
                if ns == 0 { Ok(None) } else { span(time, KernelTime(time.0.saturating_add(ns))) }
            }
            Edge::CommitBegin | Edge::CommitEnd | Edge::Apart => Ok(None),
        }
    }
}

/// Stores a span with the call that contains it. Returns false if there is no room.
pub(super) fn put(operation: &mut SyscallOperation, span: Span) -> bool {
    let has_room = operation.spans.len() < SPANS_MAX;
    if has_room {
        operation.spans.push(span);
    }
    has_room
}

/// Returns, for each thread that has queued some of the request, the time that it waited for its
/// driver, and the time that the driver took.
pub(super) fn of_request(request: &BlockRequest) -> Vec<(Tid, Vec<Span>)> {
    let Some(completed) = request.completed else { return Vec::new() };
    if is_passed_on(request) {
        // The requests on the devices below have the times.
        return Vec::new();
    }
    let mut threads: Vec<(Tid, KernelTime)> = Vec::new();
    for queued in request.parts.iter().map(|it| &it.queued) {
        match threads.iter_mut().find(|it| it.0 == queued.tid) {
            Some(known) => known.1 = known.1.min(queued.time),
            None => threads.push((queued.tid, queued.time)),
        }
    }
    let span = |layer: Layer, what, begin, end| Span { layer, what, begin, end };
    let spans = |queued: KernelTime| match request.issued {
        Some(issued) => vec![
            span(Layer::Queue, "request", queued, issued.max(queued)),
            span(Layer::Device, "request", issued.max(queued), completed),
        ],
        // A device that has bios and no queue.
        None => vec![span(Layer::Device, "bio", queued, completed)],
    };
    threads.into_iter().map(|(tid, queued)| (tid, spans(queued))).collect()
}

/// Limit of remembered commits of a device: one call may have waited for this many.
const COMMITS_MAX: usize = 256;

/// Commits of the journals of file systems.
#[derive(Debug, Default)]
pub struct JournalCommits {
    /// Begin and end by device, in order; the last one may be in progress.
    all: FxHashMap<DevId, VecDeque<(KernelTime, Option<KernelTime>)>>,
}

impl JournalCommits {
    /// Takes an event; returns true if it belongs to a commit.
    pub(super) fn hit(&mut self, hit: &LayerEvent, time: KernelTime) -> bool {
        let Some(dev) = hit.dev else { return false };
        match hit.edge {
            Edge::CommitBegin => {
                let of_device = self.all.entry(dev).or_default();
                // The end of an older commit was not seen.
                of_device.retain(|it| it.1.is_some());
                if of_device.len() == COMMITS_MAX {
                    of_device.pop_front();
                }
                of_device.push_back((time, None));
            }
            Edge::CommitEnd => {
                let last = self.all.get_mut(&dev).and_then(VecDeque::back_mut);
                if let Some((_, end @ None)) = last {
                    *end = Some(time);
                }
            }
            _ => return false,
        }
        true
    }

    /// Returns the commit of a device that ended at this time, if its begin was seen.
    pub(super) fn ended(&self, dev: DevId, time: KernelTime) -> Option<Range<KernelTime>> {
        let (begin, end) = *self.all.get(&dev)?.back()?;
        end.filter(|end| *end == time).map(|end| begin..end)
    }

    /// Forgets all: records were lost, and any commit may have happened.
    pub(super) fn forget(&mut self) {
        self.all.clear();
    }

    /// Adds the commits during a call that syncs to the disk, at its end. Returns false if there is
    /// no room.
    pub(super) fn put_with(&self, operation: &mut SyscallOperation, end: KernelTime) -> bool {
        let is_sync = operation.call.call().class == CallClass::Sync
            || operation.spans.iter().any(|it| it.what.contains("sync"));
        if !is_sync || self.all.is_empty() {
            return true;
        }
        let dev = operation.file.as_ref().and_then(|it| it.stat).map(|it| it.dev);
        let name = operation.call.call().name;
        if name == "sync_file_range" {
            // `sync_file_range` does not wait for the journal.
            return true;
        }
        let all = name == "sync";
        let start = operation.start;
        let mut has_room = true;
        for (_, commits) in self.all.iter().filter(|it| all || Some(*it.0) == dev) {
            let seen = commits.iter().rev().take_while(|it| it.1.is_none_or(|it| it > start));
            for &(begin, ended) in seen {
                let (begin, end) = (begin.max(start), ended.unwrap_or(end).min(end));
                let span = Span { layer: Layer::Journal, what: COMMIT, begin, end };
                has_room &= put(operation, span);
            }
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(what: &'static str, edge: Edge) -> LayerEvent {
        LayerEvent { layer: Layer::Fs, what, edge, dev: Some(DevId(7)), transaction: None }
    }

    fn time(ns: u64) -> KernelTime {
        KernelTime(ns)
    }

    /// Begin and end; or an end without a beginning.
    type SpanResult = Result<(u64, u64), ()>;

    /// Returns the results of events of a thread that is inside a call since 100, each with its
    /// time.
    fn hits(all: &[(&'static str, Edge, u64)]) -> (OpenSpans, Vec<SpanResult>) {
        let mut spans = OpenSpans::default();
        let mut ended = Vec::new();
        for &(what, edge, at) in all {
            match spans.hit(&hit(what, edge), time(at), Some(time(100))) {
                Ok(Some(span)) => ended.push(Ok((span.begin.0, span.end.0))),
                Ok(None) => {}
                Err(()) => ended.push(Err(())),
            }
        }
        (spans, ended)
    }

    #[test]
    fn each_end_finds_its_beginning() {
        use Edge::{Begin, End};
        let (mut spans, ended) = hits(&[
            ("a", Begin, 110),
            ("b", Begin, 120),
            ("b", End, 130),
            ("b", Begin, 140),
            ("b", End, 150),
            ("a", End, 160),
            ("a", End, 170),
        ]);
        assert_eq!(ended, [Ok((120, 130)), Ok((140, 150)), Ok((110, 160)), Err(())]);
        assert_eq!(spans.clear(), 0);
        // A span of the same name inside another; one whose end was lost.
        let (mut spans, ended) = hits(&[
            ("a", Begin, 110),
            ("a", Begin, 120),
            ("b", Begin, 130),
            ("a", End, 140),
            ("c", Begin, 150),
        ]);
        assert_eq!(ended, [Ok((120, 140))]);
        assert_eq!(spans.clear(), 2);
        // The end of direct I/O is not always recorded.
        let (mut spans, ended) = hits(&[(IOMAP_DIO, Begin, 110)]);
        assert_eq!((ended.as_slice(), spans.clear()), (&[][..], 0));
    }

    #[test]
    fn span_without_a_begin_starts_at_the_previous_event() {
        use Edge::{Begin, Since};
        let (_, ended) =
            hits(&[("p", Since, 110), ("p", Since, 130), ("a", Begin, 140), ("p", Since, 150)]);
        assert_eq!(ended, [Ok((100, 110)), Ok((110, 130)), Ok((140, 150))]);
        let mut spans = OpenSpans::default();
        assert_eq!(spans.hit(&hit("p", Since), time(7), None), Ok(None));
        assert_eq!(spans.hit(&hit("p", Since), time(9), None), Ok(None));
    }

    #[test]
    fn throttle_pause_has_its_requested_length() {
        let (_, ended) = hits(&[
            ("w", Edge::Pause(3), 110),
            ("w", Edge::Pause(0), 120),
            ("w", Edge::Pause(-4), 130),
        ]);
        assert_eq!(ended, [Ok((110, 3_000_110))]);
    }

    #[test]
    fn commits_are_distinguished_by_device_and_evicted() {
        let mut commits = JournalCommits::default();
        assert!(!commits.hit(&hit("a", Edge::Begin), time(1)));
        for at in 0..COMMITS_MAX as u64 + 5 {
            assert!(commits.hit(&hit(COMMIT, Edge::CommitBegin), time(10 * at)));
            assert!(commits.hit(&hit(COMMIT, Edge::CommitEnd), time(10 * at + 3)));
        }
        let of_device = |it: &JournalCommits| it.all[&DevId(7)].clone();
        assert_eq!(of_device(&commits).len(), COMMITS_MAX);
        assert_eq!(of_device(&commits)[0], (time(50), Some(time(53))));
        // An end that was not seen leaves nothing.
        commits.hit(&hit(COMMIT, Edge::CommitBegin), time(9000));
        commits.hit(&hit(COMMIT, Edge::CommitBegin), time(9100));
        let open = of_device(&commits).iter().filter(|it| it.1.is_none()).count();
        assert_eq!((open, of_device(&commits).back().copied()), (1, Some((time(9100), None))));
        // Without a device the commit cannot be attributed.
        assert!(
            !commits.hit(&LayerEvent { dev: None, ..hit(COMMIT, Edge::CommitEnd) }, time(9200))
        );
        commits.forget();
        assert!(commits.all.is_empty());
    }
}
