//! Page faults: the files that they concern.

use std::rc::Rc;

use super::Tracker;
use super::announce::announce;
use super::seen_maps::SeenMaps;
use crate::anomaly::Ignored;
use crate::event::fault::{FaultEvent, FaultPlace};
use crate::event::{Event, FileStat};
use crate::operation::fault::Fault;
use crate::operation::fd_table::Description;
use crate::operation::mappings::{Mapping, Mappings, mapped_files};
use crate::operation::model::{FilePath, OpenFile, PathSource};
use crate::operation::step::{Sink, Step};
use crate::units::{KernelTime, Pid};

impl Tracker {
    /// Takes the mapped files of a process from `/proc/PID/maps`, whose read began at this time.
    pub fn seen_maps(&mut self, begin: KernelTime, pid: Pid, text: Vec<u8>) {
        // The contents may have been recorded only for the symbols of programs.
        if self.context.followed.mappings.is_some() {
            self.seen_maps.push_back(SeenMaps { begin, pid, text });
        }
    }

    /// Applies the contents that were read before this time.
    pub(super) fn look_at_maps(&mut self, time: KernelTime) {
        while self.seen_maps.front().is_some_and(|it| it.begin <= time)
            && let Some(seen) = self.seen_maps.pop_front()
        {
            self.put_maps(&seen);
        }
    }

    fn put_maps(&mut self, seen: &SeenMaps) {
        let mut mappings = Mappings::default();
        mappings.doubt_since(self.context.losses);
        let mut last: Option<Rc<Description>> = None;
        let mounts = self.tasks.process(seen.pid).place.borrow().mounts;
        for it in mapped_files(&seen.text) {
            // The mappings of a file follow each other.
            let same = last
                .take()
                .filter(|last| last.file().path.as_ref().is_some_and(|path| path.bytes == it.path));
            let description = same.unwrap_or_else(|| {
                let path = FilePath::new(it.path, PathSource::Snapshot);
                let path = Some(path.within(mounts));
                let stat = Some(FileStat { mode: 0, dev: it.dev, ino: it.ino, size: 0 });
                let file = OpenFile { path, stat, ..self.context.file(None, true) };
                let description = Rc::new(Description::unknown(file, self.context.losses));
                self.context.names.note(&description, seen.begin);
                description
            });
            let bytes = it.end.saturating_sub(it.start);
            mappings.put(Mapping::new(it.start, bytes, Rc::clone(&description), it.offset));
            last = Some(description);
        }
        *self.tasks.process(seen.pid).memory.borrow_mut() = mappings;
    }

    /// Handles a page fault.
    pub(super) fn fault<S: Sink>(
        &mut self,
        event: &Event,
        fault: &FaultEvent,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if self.should_ignore(event.pid, false) {
            return Ok(());
        }
        let page_bytes = self.context.followed.mappings.unwrap_or_default();
        let process = self.tasks.process(event.pid);
        let mut memory = process.memory.borrow_mut();
        memory.doubt_since(self.context.losses);
        let found = match fault.place {
            FaultPlace::Address(address) => {
                memory.at(address).map(|(file, at)| (Rc::clone(file), at))
            }
            FaultPlace::Page { dev, ino, index } => {
                memory.file(dev, ino).map(|it| (it, index.saturating_mul(page_bytes)))
            }
        };
        drop(memory);
        let Some((description, offset)) = found else {
            self.ledger.ignore(Ignored::NoFile);
            return Ok(());
        };
        self.ledger.events += 1;
        self.reap_reused_tid(event.time, event.pid, event.tid, sink)?;
        let (process, thread) = self.tasks.thread(event.pid, event.tid);
        announce(event.time, process, thread, sink)?;
        let address = match fault.place {
            FaultPlace::Address(address) => Some(address),
            FaultPlace::Page { .. } => None,
        };
        let Event { time, cpu, pid, tid, .. } = *event;
        let file_fault = Fault {
            thread: thread.info.key,
            process: process.info.key,
            pid,
            tid,
            cpu,
            time,
            address,
            write: fault.write,
            file: description.file(),
            offset,
        };
        sink.step(event.time, &Step::Fault(&file_fault))
    }
}
