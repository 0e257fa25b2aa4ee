//! Loader: turns a frame of the plan into prepared calls.

use zstd::bulk::Decompressor;

use super::stamps::Stamps;
use super::steps::{Besides, Due, Moment, Results, Steps};
use crate::event::syscall_table::{Call, CallId, Class};
use crate::replay::comparison::{Compared, Pair};
use crate::replay::initially_absent::changes_names;
use crate::replay::locks::{Wish, wish};
use crate::replay::outcome::{makes_descriptor, outcome};
use crate::replay::plan_file::{CallPlan, Index, OPERATIONS_MAX, Operation, PlanError, PlanReader};
use crate::replay::replayability::{Treatment, treatment};
use crate::sys::again::{Batch, Longest, Prototype, Wanted};
use crate::sys::ticks::Both;

/// Captured facts of an operation that are not read before the comparison.
#[derive(Clone, Copy, Debug)]
struct Captured {
    /// Index into the plan's calls.
    call: u16,
    ret: i64,
    file: Option<u32>,
    /// Range of the operation's path in the frame.
    path: Option<(u32, u32)>,
}

/// Returns the additional work of an operation besides its call; `None`: `replay plan` does not
/// produce such an operation.
fn besides(call: &Call, operation: &Operation<'_>) -> Option<Besides> {
    let wish = (call.class == Class::Lock).then(|| wish(&operation.args));
    match (call.class, operation.implicit) {
        (Class::Close, true) => Some(Besides::Implicit),
        (Class::Lock, true) if wish == Some(Wish::Unlock) => Some(Besides::ImplicitChange),
        (Class::Seek, true) => Some(Besides::ImplicitChange),
        (Class::Control, true) if sets_flags(&operation.args) => Some(Besides::ImplicitChange),
        (_, true) => None,
        (Class::Close, _) if operation.keeps_handle => Some(Besides::ClosesCopy),
        (Class::Close, _) => Some(Besides::Closes),
        (Class::Lock, _) if matches!(wish, Some(Wish::Lock(_, true))) => Some(Besides::Waits),
        _ if makes_descriptor(call, &operation.args) => Some(Besides::Makes),
        _ => Some(Besides::Nothing),
    }
}

/// Returns true for an `fcntl` that sets the flags of a descriptor.
fn sets_flags([_, command, ..]: &[u64; 6]) -> bool {
    *command == u64::from(libc::F_SETFD.cast_unsigned())
}

/// Position at which the next frame of a worker begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Next {
    /// Index among the worker's frames.
    pub(super) frame: usize,
    number: u32,
    /// Number of explicit operations before it.
    explicit: u32,
    /// Captured end of the last explicit operation before it, in ns since the first operation.
    pub(super) end: u64,
    turn: u64,
}

/// Operations of one worker, ready to be executed.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) worker: u32,
    /// Number of the first operation.
    first: u32,
    /// Number of the first explicit operation.
    first_explicit: u32,
    pub(super) batch: Batch,
    pub(super) steps: Steps,
    captured: Vec<Captured>,
    pub(super) results: Results,
    /// Clock and ticks at the end of the frame, which give the stamps a meaning.
    pub(super) at: Option<Both>,
    pub(super) next: Next,
    /// Decompressed frame, which contains the paths.
    payload: Vec<u8>,
}

impl Loaded {
    /// Returns the number, among the worker's operations, of the operation at an index.
    pub(super) fn number(&self, index: usize) -> u32 {
        self.first.wrapping_add(u32::try_from(index).unwrap_or(0))
    }

    /// Returns the memory of the frame and of its results, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self)
            + self.payload.len()
            + self.batch.bytes()
            + self.steps.bytes()
            + size_of_val(&self.captured[..])
            + self.results.bytes()
    }
}

/// Plan, and data derived from it once.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) reader: PlanReader,
    pub(super) index: Index,
    calls: Vec<(&'static Call, Prototype)>,
    pub(super) longest: Longest,
}

impl Source {
    /// Looks up the plan's calls.
    ///
    /// # Errors
    ///
    /// The name of a call that this version does not know, or that this machine does not have.
    pub(super) fn new(reader: PlanReader, index: Index) -> Result<Self, String> {
        let call = |CallPlan { name, .. }: &CallPlan| {
            let call = CallId::by_name(name).map(CallId::call);
            let known = call.and_then(|it| Some((it, Prototype::new(it).ok()?)));
            known.ok_or(name.clone())
        };
        let calls = index.calls.iter().map(call).collect::<Result<_, _>>()?;
        let longest = Longest::new(index.longest[0], index.longest[1]);
        Ok(Self { reader, index, calls, longest })
    }

    /// Loads the next frame of a worker; `None`: the worker has no more.
    ///
    /// # Errors
    ///
    /// The plan is damaged.
    pub(super) fn load(
        &self,
        worker: u32,
        next: Next,
        zstd: &mut Decompressor<'_>,
    ) -> Result<Option<Loaded>, PlanError> {
        let frames = self.index.workers.get(worker as usize).map_or(&[][..], |it| &it.frames);
        let Some(at) = frames.get(next.frame).copied() else { return Ok(None) };
        let payload = self.reader.operations(at, zstd)?;
        let damaged = |what| PlanError::Damaged { at, what };
        let mut loaded = Loaded {
            worker,
            first: next.number,
            first_explicit: next.explicit,
            batch: Batch::new(self.longest),
            steps: Steps::default(),
            captured: Vec::new(),
            results: Results::default(),
            at: None,
            next: Next { frame: next.frame + 1, ..next },
            payload: Vec::new(),
        };
        let mut left = &payload[..];
        while !left.is_empty() {
            let (operation, rest): (Operation<'_>, _) = postcard::take_from_bytes(left)
                .map_err(|_| damaged("its operations have another shape"))?;
            left = rest;
            if loaded.captured.len() as u64 >= u64::from(OPERATIONS_MAX) {
                return Err(damaged("it has more operations than a frame may have"));
            }
            self.push(&mut loaded, &operation, &payload)
                .ok_or(damaged("an operation of it cannot be done on this machine"))?;
        }
        // An empty frame is refused because each frame takes time.
        if loaded.captured.is_empty() {
            return Err(damaged("it has no operations"));
        }
        loaded.batch.seal();
        loaded.results = Results::of(loaded.captured.len());
        loaded.payload = payload;
        Ok(Some(loaded))
    }

    fn push(&self, loaded: &mut Loaded, operation: &Operation<'_>, payload: &[u8]) -> Option<()> {
        let (call, prototype) = self.calls.get(usize::from(operation.call))?;
        // `replay plan` produces only calls that are executed.
        if treatment(call, &operation.args) != Treatment::Done {
            return None;
        }
        let besides = besides(call, operation)?;
        if operation.makes.is_some() && besides != Besides::Makes {
            return None;
        }
        let mut args = operation.args;
        if call.class == Class::Lock {
            // The operation waits for the previous holder before the call. With another order a
            // blocking call could wait forever.
            args[1] |= u64::from(libc::LOCK_NB.cast_unsigned());
        }
        let wanted = Wanted {
            args,
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
            sinks: operation.ret >= 0,
        };
        loaded.batch.push(prototype, &wanted).ok()?;
        let next = &mut loaded.next;
        let start = next.end.saturating_add(operation.gap);
        let end = start.saturating_add(operation.took);
        next.end = if operation.implicit { next.end } else { end };
        next.turn = next.turn.saturating_add(operation.others);
        next.number = next.number.checked_add(1)?;
        next.explicit += u32::from(!operation.implicit);
        let place = |path: &[u8]| {
            let from = path.as_ptr().addr() - payload.as_ptr().addr();
            Some((u32::try_from(from).ok()?, u32::try_from(from + path.len()).ok()?))
        };
        loaded.captured.push(Captured {
            call: operation.call,
            ret: operation.ret,
            file: operation.file,
            path: operation.path.and_then(place),
        });
        let moment =
            Moment { start, end, behind: end.saturating_add(operation.behind), turn: next.turn };
        let (handle, makes) = (operation.handle, operation.makes);
        let is_about_names = changes_names(call, &operation.args, operation.flags);
        let names = is_about_names.then_some(operation.ret >= 0);
        let due = Due::new(handle, makes, besides, names);
        loaded.steps.push(due, moment, &operation.before)
    }

    /// Returns the results of the completed operations together with their captured results.
    pub(super) fn pairs<'a>(
        &self,
        loaded: &'a Loaded,
        stamps: &Stamps,
    ) -> impl Iterator<Item = Pair<'a>> {
        let all = loaded.steps.iter().zip(&loaded.captured).zip(loaded.results.iter());
        let explicit = all.filter(|((step, _), _)| !step.due.besides.is_implicit());
        (loaded.first_explicit..).zip(explicit).map(|(number, ((step, captured), (got, late)))| {
            let call = self.calls[usize::from(captured.call)].0;
            let makes = step.due.besides == Besides::Makes;
            let path = |(from, to)| loaded.payload.get(from as usize..to as usize);
            Pair {
                compared: Compared {
                    start: step.moment.start,
                    worker: loaded.worker,
                    number,
                    call: captured.call,
                    outcome: outcome(call, makes, captured.ret, got.ret),
                    captured: captured.ret,
                    replayed: got.ret,
                },
                file: captured.file,
                captured_end: step.moment.end,
                captured_behind: step.moment.behind,
                replayed_time: (stamps.ns(got.start, loaded.at), stamps.ns(got.end, loaded.at)),
                late,
                path: captured.path.and_then(path),
                moves_bytes: call.class.moves_bytes(),
            }
        })
    }
}
