//! What of a frame is looked at between two calls. It is short, as is a prepared call: what the kernel does drives memory out of the caches, and
//! each line that has to come back is a part of what a replay is slower than the program.

/// What an operation waits for and changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// Where those that it waits for end in the list of all of them.
    waits_end: u32,
    /// What it was given and made.
    pub(super) handle: Option<u32>,
    pub(super) makes: Option<u32>,
    pub(super) besides: Besides,
    /// Whether it succeeded in the capture, if it is about names.
    pub(super) names: Option<bool>,
}

impl Due {
    pub(super) fn new(
        handle: Option<u32>,
        makes: Option<u32>,
        besides: Besides,
        names: Option<bool>,
    ) -> Self {
        Self { waits_end: 0, handle, makes, besides, names }
    }
}

/// What there is to be done besides the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Besides {
    /// Nothing.
    Nothing,
    /// Its result is a descriptor, also where the captured one had failed.
    Makes,
    /// The descriptor that it was given is closed.
    Closes,
    /// Others have that, too: it stays, and a copy of it is closed.
    ClosesCopy,
    /// Its time begins before it waits for others: in the capture it waited inside the call.
    Waits,
    /// It is closed, which no call of the capture did.
    Implicit,
    /// The same of an unlock, a seek, or a flag of a descriptor.
    ImplicitChange,
}

impl Besides {
    /// True for what no call of the capture did.
    pub(super) fn is_implicit(self) -> bool {
        matches!(self, Self::Implicit | Self::ImplicitChange)
    }
}

/// When an operation was in the capture: looked at where times, a part, or the order of all are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// ns since the first operation.
    pub(super) start: u64,
    pub(super) end: u64,
    /// The latest end of it and of all that are before it in the plan: those that it may wait for.
    pub(super) behind: u64,
    /// How many operations had ended before, in all threads.
    pub(super) turn: u64,
}

/// An operation that is to be done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'a> {
    pub(super) due: &'a Due,
    pub(super) moment: &'a Moment,
    /// Whom it waits for: workers, and which of their operations.
    pub(super) waits: &'a [(u32, u32)],
}

/// The operations of a frame, without their calls.
#[derive(Debug, Default)]
pub(super) struct Steps {
    due: Vec<Due>,
    moments: Vec<Moment>,
    waits: Vec<(u32, u32)>,
}

impl Steps {
    /// One more; `None`: there are more to wait for than a frame has place for.
    pub(super) fn push(&mut self, due: Due, moment: Moment, waits: &[(u32, u32)]) -> Option<()> {
        self.waits.extend(waits);
        self.due.push(Due { waits_end: u32::try_from(self.waits.len()).ok()?, ..due });
        self.moments.push(moment);
        Some(())
    }

    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    /// One of them; `None`: there are not so many.
    pub(super) fn get(&self, index: usize) -> Option<Step<'_>> {
        let (due, moment) = (self.due.get(index)?, self.moments.get(index)?);
        let from = index.checked_sub(1).map_or(0, |it| self.due[it].waits_end);
        Some(Step { due, moment, waits: &self.waits[from as usize..due.waits_end as usize] })
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Step<'_>> {
        (0..).map_while(|it| self.get(it))
    }

    /// Memory that they take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.due[..]) + size_of_val(&self.moments[..]) + size_of_val(&self.waits[..])
    }
}

/// What the replay got.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Got {
    pub(super) ret: i64,
    /// When: stamps.
    pub(super) start: u64,
    pub(super) end: u64,
}

/// What came of the operations of a frame, as far as they are done.
#[derive(Debug, Default)]
pub(super) struct Results {
    got: Vec<Got>,
    late: Vec<Option<u64>>,
    done: usize,
}

impl Results {
    /// Room for so many, which is there before the first one.
    pub(super) fn of(count: usize) -> Self {
        Self { got: vec![Got::default(); count], late: vec![None; count], done: 0 }
    }

    /// Of the next one, and how long after its time it began, ns, if it had one.
    pub(super) fn push(&mut self, got: Got, late: Option<u64>) {
        self.got[self.done] = got;
        if late.is_some() {
            self.late[self.done] = late;
        }
        self.done += 1;
    }

    /// Of those that are done.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Got, Option<u64>)> {
        self.got[..self.done].iter().zip(self.late.iter().copied())
    }

    /// Memory that they take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.got[..]) + size_of_val(&self.late[..])
    }
}
