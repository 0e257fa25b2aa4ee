//! Begin of a segment in the log thread.

use super::LogThread;
use crate::capture::fact::{Fact, Text};
use crate::sys::proc;
use crate::tracer::extents::SeenFiles;
use crate::tracer::log_message::Message;
use crate::tracer::process_tree::Tree;
use crate::units::{KernelTime, Pid};

impl LogThread {
    /// Returns the followed processes to the session, which takes the snapshot of a segment.
    pub(super) fn answer(&self, message: &Message) {
        if let Message::Segment(_, processes) = message {
            let tree = self.tree().map(Tree::processes).unwrap_or_default();
            // The session may have given up waiting.
            let _ = processes.try_send(tree);
        }
    }

    /// Marks the begin of a segment, and has the identities of its processes read. Lists that are
    /// used at the end of a recording begin anew: they would grow with its length.
    pub(super) fn begin_segment(&mut self, time: KernelTime) {
        self.counted.files = SeenFiles::default();
        self.counted.programs = None;
        let tree = self.tree().map(Tree::processes);
        let roots: Vec<String> = tree.iter().flatten().map(|pid| pid.0.to_string()).collect();
        let (which, text) = (Text::SEGMENT, roots.join(" ").into_bytes());
        self.write_facts(&[(None, Fact::Text { time, which, pid: Pid(0), text })]);
        if let Some(identities) = &mut self.identities {
            identities.read(tree.unwrap_or_else(proc::processes));
        }
    }
}
