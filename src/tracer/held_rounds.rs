//! Rounds that wait in the log thread, in process mode, until it is decided which of their records
//! go into the log.
//!
//! A round is held until the next one has been searched for births of tasks, and until each of its
//! block records is known to be caused by the program or by another process (`sieve`).

use std::collections::VecDeque;

use super::log_message::Message;
use super::pieces::ProcessChange;
use super::process_tree::Tree;
use super::sieve::{HELD_BYTES_MAX, HELD_ROUNDS_MAX, Sieve};
use crate::record::{Layout, records};
use crate::units::{KernelTime, Pid};

/// A waiting message, and the number of its records' marks.
pub(super) type Waiting = (Message, Option<u64>);

/// Messages between two rounds.
#[derive(Debug, Default)]
struct Round {
    messages: Vec<Waiting>,
    bytes: usize,
}

impl Round {
    fn chunks(&self) -> impl Iterator<Item = u64> + '_ {
        self.messages.iter().filter_map(|it| it.1)
    }
}

/// Waiting rounds, and the state that decides about them.
#[derive(Debug)]
pub(super) struct HeldRounds {
    pub tree: Tree,
    pub sieve: Option<Sieve>,
    rounds: VecDeque<Round>,
    /// The round that is being received.
    current: Round,
    /// Time of the previous round.
    last: KernelTime,
    /// Processes that have started a program since they were taken.
    execs: Vec<Pid>,
}

impl HeldRounds {
    pub(super) fn new(tree: Tree, sieve: Option<Sieve>) -> Self {
        let (rounds, current) = (VecDeque::new(), Round::default());
        Self { tree, sieve, rounds, current, last: KernelTime::MIN, execs: Vec::new() }
    }

    /// Returns the processes of the tree that have started a program since the last call.
    pub(super) fn take_execs(&mut self) -> Vec<Pid> {
        let execs = std::mem::take(&mut self.execs);
        execs.into_iter().filter(|pid| self.tree.has(*pid)).collect()
    }

    /// Adds a message; returns true if it ends a round.
    pub(super) fn add(&mut self, message: Message, layouts: &[Layout]) -> bool {
        let mut chunk = None;
        match &message {
            Message::Data(data) => {
                let layout = layouts.get(usize::from(data.layout)).copied();
                if let Some(Layout::Perf(layout)) = &layout {
                    for (_, record) in records(&data.bytes).flatten() {
                        if !ProcessChange::is_in(&record) {
                            continue;
                        }
                        self.tree.note(&record, layout);
                        if let Some(ProcessChange::Exec(pid)) = ProcessChange::of(&record, layout) {
                            self.execs.push(pid);
                        }
                    }
                }
                self.current.bytes += data.bytes.len();
                chunk = self.sieve.as_mut().zip(layout).map(|(it, layout)| it.take(data, layout));
            }
            Message::Facts(facts) => {
                if let Some(sieve) = &mut self.sieve {
                    facts.iter().for_each(|(pid, fact)| sieve.note(*pid, fact));
                }
            }
            Message::Segment(..) => {}
            Message::Round(_, time) => {
                let time = *time;
                self.current.messages.push((message, None));
                self.round_ends(time);
                return true;
            }
        }
        self.current.messages.push((message, chunk));
        false
    }

    /// Ends a round: all data that was written before the previous round has arrived.
    fn round_ends(&mut self, time: KernelTime) {
        self.tree.learn();
        if let Some(sieve) = &mut self.sieve {
            sieve.advance(self.last, &self.tree);
        }
        self.last = time;
        self.rounds.push_back(std::mem::take(&mut self.current));
    }

    /// Returns the first round, if it need not, or may not, wait any longer.
    pub(super) fn next_due(&mut self) -> Option<Vec<Waiting>> {
        let bytes: usize = self.rounds.iter().map(|it| it.bytes).sum();
        let is_over = self.rounds.len() > HELD_ROUNDS_MAX || bytes > HELD_BYTES_MAX;
        if self.rounds.len() < 2 {
            return None;
        }
        let first = self.rounds.front()?;
        if let Some(sieve) = &mut self.sieve
            && !first.chunks().all(|it| sieve.is_decided(it))
        {
            if !is_over {
                return None;
            }
            first.chunks().for_each(|it| sieve.keep_undecided(it, false));
        }
        self.rounds.pop_front().map(|it| it.messages)
    }

    /// Decides about all remaining rounds after the last message, and returns them.
    pub(super) fn finish(&mut self) -> Vec<Waiting> {
        self.round_ends(KernelTime::MAX);
        if let Some(sieve) = &mut self.sieve {
            sieve.advance(KernelTime::MAX, &self.tree);
            let all = self.rounds.iter().flat_map(Round::chunks);
            all.for_each(|it| sieve.keep_undecided(it, true));
        }
        self.rounds.drain(..).flat_map(|it| it.messages).collect()
    }
}
