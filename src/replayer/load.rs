//! From a frame of the plan to calls that are ready to be made.

use crate::event::syscall_table::{Call, CallId, Class};
use crate::replay::calls::{Treatment, treatment};
use crate::replay::comparison::Pair;
use crate::replay::file::{Index, OPERATIONS_MAX, Operation, PlanError, PlanReader};
use crate::replay::outcome::{makes_descriptor, outcome};
use crate::sys::again::{Batch, Longest, Wanted};

/// What is known of an operation besides its call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// Index into the plan's calls.
    pub(super) call: u16,
    /// As captured, ns since the first operation.
    pub(super) start: u64,
    pub(super) end: u64,
    /// How many operations had ended before, in all threads.
    pub(super) turn: u64,
    /// Where those that it waits for end in [`Loaded::waits`].
    pub(super) waits_end: usize,
    /// What it was given and made.
    pub(super) handle: Option<u32>,
    pub(super) makes: Option<u32>,
    /// Its result is a descriptor, also where the captured one had failed.
    pub(super) makes_descriptor: bool,
    pub(super) closes: Closes,
    captured: i64,
    args: [u64; 6],
    path: Option<(usize, usize)>,
}

/// What becomes of the descriptor that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closes {
    /// It stays open.
    No,
    /// It is closed.
    Yes,
    /// Others have it, too: it stays, and a copy of it is closed.
    Copy,
}

/// What the replay got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Got {
    pub(super) ret: i64,
    /// ns since the replay began.
    pub(super) start: u64,
    pub(super) end: u64,
    /// How long after its time it began, ns.
    pub(super) late: Option<u64>,
}

/// Where the next frame of a worker goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Next {
    /// Which of its frames.
    pub(super) frame: usize,
    number: u32,
    end: u64,
    turn: u64,
}

/// Operations of one worker, ready to be done.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) worker: u32,
    /// The first one's number.
    pub(super) first: u32,
    pub(super) batch: Batch,
    pub(super) due: Vec<Due>,
    /// Whom they wait for.
    pub(super) waits: Vec<(u32, u32)>,
    /// What came of them.
    pub(super) got: Vec<Got>,
    pub(super) next: Next,
    /// The frame, for the paths in it.
    payload: Vec<u8>,
}

/// The plan and what is derived from it once.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) reader: PlanReader,
    pub(super) index: Index,
    pub(super) calls: Vec<&'static Call>,
    pub(super) longest: Longest,
}

impl Source {
    /// Knows the plan's calls.
    ///
    /// # Errors
    ///
    /// The name of one that this version does not know.
    pub(super) fn new(reader: PlanReader, index: Index) -> Result<Self, String> {
        let call = |name: &String| CallId::by_name(name).map(CallId::call).ok_or(name.clone());
        let calls = index.calls.iter().map(call).collect::<Result<_, _>>()?;
        let longest = Longest::new(index.longest[0], index.longest[1]);
        Ok(Self { reader, index, calls, longest })
    }

    /// The next frame of a worker; `None`: it has no more.
    ///
    /// # Errors
    ///
    /// The plan is damaged.
    pub(super) fn load(&self, worker: u32, next: Next) -> Result<Option<Loaded>, PlanError> {
        let frames = self.index.workers.get(worker as usize).map_or(&[][..], |it| &it.frames);
        let Some(at) = frames.get(next.frame).copied() else { return Ok(None) };
        let payload = self.reader.operations(at)?;
        let damaged = |what| PlanError::Damaged { at, what };
        let mut loaded = Loaded {
            worker,
            first: next.number,
            batch: Batch::new(self.longest),
            due: Vec::new(),
            waits: Vec::new(),
            got: Vec::new(),
            next: Next { frame: next.frame + 1, ..next },
            payload: Vec::new(),
        };
        let mut left = &payload[..];
        while !left.is_empty() {
            let (operation, rest): (Operation<'_>, _) = postcard::take_from_bytes(left)
                .map_err(|_| damaged("its operations have another shape"))?;
            left = rest;
            if loaded.due.len() as u64 >= u64::from(OPERATIONS_MAX) {
                return Err(damaged("it has more operations than a frame may have"));
            }
            self.push(&mut loaded, &operation, &payload)
                .ok_or(damaged("an operation of it cannot be done on this machine"))?;
        }
        loaded.batch.seal();
        loaded.payload = payload;
        Ok(Some(loaded))
    }

    fn push(&self, loaded: &mut Loaded, operation: &Operation<'_>, payload: &[u8]) -> Option<()> {
        let call = *self.calls.get(usize::from(operation.call))?;
        // No plan of ours has others.
        if treatment(call, &operation.args) != Treatment::Done {
            return None;
        }
        let makes_descriptor = makes_descriptor(call, &operation.args);
        if operation.makes.is_some() && !makes_descriptor {
            return None;
        }
        let wanted = Wanted {
            call,
            args: operation.args,
            slot: operation.handle,
            target: operation.target,
            makes: operation.makes,
            path: operation.path,
            second_path: operation.second_path,
            flags: operation.flags,
            offset: operation.offset,
            target_offset: operation.target_offset,
            bytes: operation.bytes,
            moved: u64::try_from(operation.ret).unwrap_or(0),
        };
        loaded.batch.push(&wanted).ok()?;
        loaded.waits.extend(&operation.before);
        let next = &mut loaded.next;
        let start = next.end.saturating_add(operation.gap);
        next.end = start.saturating_add(operation.took);
        next.turn = next.turn.saturating_add(operation.others);
        next.number += 1;
        let closes = match (call.class, operation.keeps_handle) {
            (Class::Close, true) => Closes::Copy,
            (Class::Close, false) => Closes::Yes,
            _ => Closes::No,
        };
        let place = |path: &[u8]| {
            let from = path.as_ptr().addr() - payload.as_ptr().addr();
            (from, from + path.len())
        };
        loaded.due.push(Due {
            call: operation.call,
            start,
            end: next.end,
            turn: next.turn,
            waits_end: loaded.waits.len(),
            handle: operation.handle,
            makes: operation.makes,
            makes_descriptor,
            closes,
            captured: operation.ret,
            args: operation.args,
            path: operation.path.map(place),
        });
        Some(())
    }

    /// What came of the operations, as far as they were done, beside what was captured.
    pub(super) fn pairs<'a>(&self, loaded: &'a Loaded) -> impl Iterator<Item = Pair<'a>> {
        let numbers = loaded.first..;
        numbers.zip(loaded.due.iter().zip(&loaded.got)).map(|(number, (due, got))| {
            let call = self.calls[usize::from(due.call)];
            Pair {
                worker: loaded.worker,
                number,
                call: due.call,
                outcome: outcome(call, &due.args, due.captured, got.ret),
                captured: due.captured,
                replayed: got.ret,
                captured_time: (due.start, due.end),
                replayed_time: (got.start, got.end),
                late: got.late,
                path: due.path.and_then(|(from, to)| loaded.payload.get(from..to)),
                moves_bytes: call.class.moves_bytes(),
            }
        })
    }
}
