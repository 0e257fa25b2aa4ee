//! Loader: turns a frame of the plan into prepared calls.

use zstd::bulk::Decompressor;

use super::steps::{HandleEffect, OpMeta, OpTiming, Results, Steps};
use super::timestamps::Timestamps;
use crate::event::syscall_table::{Call, CallClass, CallId};
use crate::replay::comparison::{Compared, Pair};
use crate::replay::outcome::{makes_descriptor, outcome};
use crate::replay::plan::initially_absent::changes_names;
use crate::replay::plan::locks::{FlockRequest, wish};
use crate::replay::plan::plan_file::{
    CallPlan, Index, OPERATIONS_MAX, Operation, PlanError, PlanReader,
};
use crate::replay::plan::replayability::{Treatment, treatment};
use crate::sys::replay::reissue::{BufferSizes, CallBatch, CallSignature, CapturedCall};
use crate::sys::replay::tsc::ClockSample;
use crate::units::ReplayTime;

/// Captured facts of an operation that are not read before the comparison.
#[derive(Clone, Copy, Debug)]
struct CapturedResult {
    /// Index into the plan's calls.
    call: u16,
    ret: i64,
    file: Option<u32>,
    /// Range of the operation's path in the frame.
    path: Option<(u32, u32)>,
}

/// Returns the additional work of an operation besides its call; `None`: `replay plan` does not
/// produce such an operation.
fn handle_effect(call: &Call, operation: &Operation<'_>) -> Option<HandleEffect> {
    let wish = (call.class == CallClass::Lock).then(|| wish(&operation.args));
    match (call.class, operation.implicit) {
        (CallClass::Close, true) => Some(HandleEffect::Implicit),
        (CallClass::Lock, true) if wish == Some(FlockRequest::Unlock) => {
            Some(HandleEffect::ImplicitChange)
        }
        (CallClass::Seek, true) => Some(HandleEffect::ImplicitChange),
        (CallClass::Control, true) if sets_flags(&operation.args) => {
            Some(HandleEffect::ImplicitChange)
        }
        (_, true) => None,
        (CallClass::Close, _) if operation.keeps_handle => Some(HandleEffect::ClosesCopy),
        (CallClass::Close, _) => Some(HandleEffect::Closes),
        (CallClass::Lock, _) if matches!(wish, Some(FlockRequest::Lock(_, true))) => {
            Some(HandleEffect::Waits)
        }
        _ if makes_descriptor(call, &operation.args) => Some(HandleEffect::Makes),
        _ => Some(HandleEffect::Nothing),
    }
}

/// Returns true for an `fcntl` that sets the flags of a descriptor.
fn sets_flags([_, command, ..]: &[u64; 6]) -> bool {
    *command == u64::from(libc::F_SETFD.cast_unsigned())
}

/// Position at which the next frame of a worker begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NextFrame {
    /// Index among the worker's frames.
    pub(super) frame: usize,
    number: u32,
    /// Number of explicit operations before it.
    explicit: u32,
    /// Captured end of the last explicit operation before it.
    pub(super) end: ReplayTime,
    turn: u64,
}

/// Operations of one worker, ready to be executed.
#[derive(Debug)]
pub(super) struct LoadedOps {
    pub(super) worker: u32,
    /// Number of the first operation.
    first: u32,
    /// Number of the first explicit operation.
    first_explicit: u32,
    pub(super) batch: CallBatch,
    pub(super) steps: Steps,
    captured: Vec<CapturedResult>,
    pub(super) results: Results,
    /// Clock and ticks at the end of the frame, which give the stamps a meaning.
    pub(super) at: Option<ClockSample>,
    pub(super) next: NextFrame,
    /// Decompressed frame, which contains the paths.
    payload: Vec<u8>,
}

impl LoadedOps {
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
pub(super) struct PlanSource {
    pub(super) reader: PlanReader,
    pub(super) index: Index,
    calls: Vec<(&'static Call, CallSignature)>,
    pub(super) longest: BufferSizes,
}

impl PlanSource {
    /// Looks up the plan's calls.
    ///
    /// # Errors
    ///
    /// The name of a call that this version does not know, or that this machine does not have.
    pub(super) fn new(reader: PlanReader, index: Index) -> Result<Self, String> {
        let call = |CallPlan { name, .. }: &CallPlan| {
            let call = CallId::by_name(name).map(CallId::call);
            let known = call.and_then(|it| Some((it, CallSignature::new(it).ok()?)));
            known.ok_or(name.clone())
        };
        let calls = index.calls.iter().map(call).collect::<Result<_, _>>()?;
        let longest = BufferSizes::new(index.longest[0], index.longest[1]);
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
        next: NextFrame,
        zstd: &mut Decompressor<'_>,
    ) -> Result<Option<LoadedOps>, PlanError> {
        let frames = self.index.workers.get(worker as usize).map_or(&[][..], |it| &it.frames);
        let Some(offset) = frames.get(next.frame).copied() else { return Ok(None) };
        let payload = self.reader.operations(offset, zstd)?;
        let damaged = |what| PlanError::Damaged { offset, what };
        let mut loaded = LoadedOps {
            worker,
            first: next.number,
            first_explicit: next.explicit,
            batch: CallBatch::new(self.longest),
            steps: Steps::default(),
            captured: Vec::new(),
            results: Results::default(),
            at: None,
            next: NextFrame { frame: next.frame + 1, ..next },
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

    fn push(
        &self,
        loaded: &mut LoadedOps,
        operation: &Operation<'_>,
        payload: &[u8],
    ) -> Option<()> {
        let (call, prototype) = self.calls.get(usize::from(operation.call))?;
        // `replay plan` produces only calls that are executed.
        if treatment(call, &operation.args) != Treatment::Done {
            return None;
        }
        let handle_effect = handle_effect(call, operation)?;
        if operation.makes.is_some() && handle_effect != HandleEffect::Makes {
            return None;
        }
        let mut args = operation.args;
        if call.class == CallClass::Lock {
            // The operation waits for the previous holder before the call. With another order a
            // blocking call could wait forever.
            args[1] |= u64::from(libc::LOCK_NB.cast_unsigned());
        }
        let wanted = CapturedCall {
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
        loaded.captured.push(CapturedResult {
            call: operation.call,
            ret: operation.ret,
            file: operation.file,
            path: operation.path.and_then(place),
        });
        let moment =
            OpTiming { start, end, latest: end.saturating_add(operation.behind), turn: next.turn };
        let (handle, makes) = (operation.handle, operation.makes);
        let is_about_names = changes_names(call, &operation.args, operation.flags);
        let names = is_about_names.then_some(operation.ret >= 0);
        let due = OpMeta::new(handle, makes, handle_effect, names);
        loaded.steps.push(due, moment, &operation.before)
    }

    /// Returns the results of the completed operations together with their captured results.
    pub(super) fn pairs<'a>(
        &self,
        loaded: &'a LoadedOps,
        stamps: &Timestamps,
    ) -> impl Iterator<Item = Pair<'a>> {
        let all = loaded.steps.iter().zip(&loaded.captured).zip(loaded.results.iter());
        let explicit = all.filter(|((step, _), _)| !step.due.handle_effect.is_implicit());
        (loaded.first_explicit..).zip(explicit).map(|(number, ((step, captured), (got, late)))| {
            let call = self.calls[usize::from(captured.call)].0;
            let makes = step.due.handle_effect == HandleEffect::Makes;
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
                captured_latest: step.moment.latest,
                replayed_time: (stamps.time(got.start, loaded.at), stamps.time(got.end, loaded.at)),
                late,
                path: captured.path.and_then(path),
                moves_bytes: call.class.moves_bytes(),
            }
        })
    }
}
