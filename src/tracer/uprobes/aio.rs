//! Uprobes in libaio that record the lists of `io_submit` and `io_getevents` in the thread that
//! makes the call: exact, however busy the CPUs are.
//!
//! A fetch argument reads a fixed number of words, whatever the number of operations is. A word
//! costs 20 to 100 ns, and 1 us where the memory after the list holds no pointers. So one probe
//! records the first operations of a call, and others, which are off until a program passes a
//! longer list (`long_lists`), the following ones. The names readers read the lists before.
//!
//! The probes need no test: a record counts only if its address is that of the call's argument, and
//! one of results only if their number is what the call returned.
//! They copy no strings and are at no `call` instruction, so they are safe on kernels and
//! processors where probes of names are not.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use super::super::environment::Environment;
use super::super::name_source::NameSource;
use super::super::probe_validation::shrink_marker;
use super::super::tracepoint_plan::SourceKind;
use super::code_readers;
use super::files::{self, ProbedBinary};
use crate::event::probe_events::{
    COMPLETED_PREFIX, IOCB_FIELD, IOCB_FIRST_WORD, LIST_ADDRESS_FIELD, LIST_COUNT_FIELD,
    LIST_FIELD, SUBMITTED_PREFIX,
};
use crate::event::syscall_table::{CallId, IO_EVENT_BYTES, Role};
use crate::probe_sites::{MACHINE, Site};
use crate::sys::cancellation::Cancellation;
use crate::sys::probe_events::{ProbeGroup, ProbeKind};
use crate::sys::tracefs_instance::Instance;

/// Parts of an `io_submit`: index of the first operation of each, and the one after the last. Most
/// programs submit one at a time.
const SUBMITTED_PARTS: [(usize, usize); 3] = [(0, 4), (4, 16), (16, 64)];

/// Parts of an `io_getevents`, likewise.
const COMPLETED_PARTS: [(usize, usize); 2] = [(0, 16), (16, 64)];

/// Largest number of operations or results of a call that are recorded.
const RECORDED_MAX: usize = 64;

/// Largest number of words in a fetch argument (`MAX_ARRAY_LEN` in `kernel/trace/trace_probe.h`).
const ARRAY_WORDS_MAX: usize = 64;

/// Largest number of results in a fetch argument.
const ARRAY_RESULTS: usize = ARRAY_WORDS_MAX * 8 / IO_EVENT_BYTES;

/// Words of a `struct iocb` that are recorded: flags, opcode and descriptor, buffer, bytes, offset.
const IOCB_WORDS: usize = 5;

/// Probes in libaio, and the reason for what they cover.
#[derive(Debug)]
pub struct AioProbes {
    probes: Option<(ProbeGroup, Instance)>,
    /// Coverage as text, or why there are none.
    pub reason: String,
}

impl AioProbes {
    /// Creates the probes, if the calls are recorded, memory of programs may be read, and kernel
    /// and source allow probes.
    pub fn find(
        ground: Environment<'_>,
        names: NameSource,
        cancellation: &mut Cancellation<'_>,
    ) -> Self {
        match Self::probe(ground, names, cancellation) {
            Ok((probes, reason)) => Self { probes: Some(probes), reason },
            Err(reason) => Self { probes: None, reason },
        }
    }

    fn probe(
        ground: Environment<'_>,
        names: NameSource,
        cancellation: &mut Cancellation<'_>,
    ) -> Result<((ProbeGroup, Instance), String), String> {
        if names == NameSource::Off {
            return Err("with --names off no memory of programs is read".to_owned());
        }
        let has_list = |role| move |id: &CallId| id.call().arg(role).is_some();
        let of = |role| ground.calls.iter().copied().filter(has_list(role));
        let (submit, complete): (Vec<CallId>, Vec<CallId>) =
            (of(Role::Iocbs).collect(), of(Role::IoEvents).collect());
        if submit.is_empty() || complete.is_empty() {
            return Err("not both of io_submit and io_getevents are recorded".to_owned());
        }
        if ground.source != SourceKind::Tracefs {
            return Err("uprobes are recorded with --source tracefs only".to_owned());
        }
        if ground.machine != MACHINE {
            let machine = ground.machine;
            return Err(format!("uprobes need code for {MACHINE} (this machine is {machine})"));
        }
        if let Some(why) = code_readers::hindrance(ground.command) {
            return Err(why);
        }
        let mut group =
            ProbeGroup::new(ground.tracefs, ProbeKind::User).map_err(|error| error.to_string())?;
        let found = files::probed_libaio(&[submit, complete].concat(), cancellation);
        let (searched, missed): (Vec<ProbedBinary>, Vec<ProbedBinary>) =
            found.all.into_iter().partition(|file| file.missed.is_none());
        let sites = || {
            searched.iter().flat_map(|file| file.sites.sites.iter().map(move |site| (file, site)))
        };
        let calls = sites().flat_map(|(_, site)| &site.calls);
        let calls: BTreeSet<CallId> = calls.copied().collect();
        if !calls.iter().any(has_list(Role::Iocbs)) || !calls.iter().any(has_list(Role::IoEvents)) {
            return Err(match missed.first().and_then(|file| file.missed.as_ref()) {
                Some(why) => format!("libaio was not searched: {why}"),
                None => "no libaio that is understood is installed on this machine".to_owned(),
            });
        }
        let lock = Instance::create(ground.tracefs, "aio").map_err(|error| error.to_string())?;
        shrink_marker(&lock).map_err(|error| error.to_string())?;
        for (file, site) in sites() {
            define(&mut group, file, site).map_err(|error| format!("libaio: {error}"))?;
        }
        let calls: Vec<&str> = calls.iter().map(|call| call.call().name).collect();
        let files = Vec::from_iter(searched.iter().map(|file| file.name.as_str())).join(", ");
        let missed = if missed.is_empty() { "" } else { "; another libaio was not searched" };
        let reason = format!(
            "{} that programs make through the installed {files}: the first {RECORDED_MAX} operations or \
             results of a call{missed}",
            calls.join(", ")
        );
        Ok(((group, lock), reason))
    }

    /// Returns the instance that shows that the tracer of the probes is alive.
    pub fn marker(&self) -> Option<&Instance> {
        self.probes.as_ref().map(|(_, marker)| marker)
    }

    /// Returns the probes, and the instance that shows that their tracer is alive.
    pub fn into_parts(self) -> Option<(ProbeGroup, Instance)> {
        self.probes
    }

    /// System and name of each probe.
    pub fn tracepoints(&self) -> impl Iterator<Item = (&str, &str)> {
        let groups = self.probes.iter().map(|probes| &probes.0);
        groups.flat_map(|group| group.events().iter().map(|event| (group.name(), event.as_str())))
    }
}

fn define(group: &mut ProbeGroup, file: &ProbedBinary, site: &Site) -> std::io::Result<()> {
    let takes = |role| site.calls.iter().any(|call| call.call().arg(role).is_some());
    let submits = takes(Role::Iocbs);
    let (prefix, parts) = match submits {
        true => (SUBMITTED_PREFIX, SUBMITTED_PARTS.as_slice()),
        false => (COMPLETED_PREFIX, COMPLETED_PARTS.as_slice()),
    };
    for register in &site.registers {
        for &(first, end) in parts {
            let fields = if submits { submitted } else { completed }(register, first..end);
            let name = if first == 0 { prefix.to_owned() } else { format!("{prefix}{first}") };
            group.define_in(&name, &file.file, site.offset, &fields)?;
        }
    }
    Ok(())
}

/// Fields of a part of a list of pointers, and of the `struct iocb` that each leads to.
fn submitted(register: &str, part: Range<usize>) -> String {
    let mut fields = format!(
        "{LIST_ADDRESS_FIELD}=%{register}:x64 {LIST_FIELD}=+{}(%{register}):x64[{}]",
        8 * part.start,
        part.len()
    );
    for (place, operation) in part.enumerate() {
        let _ = write!(
            fields,
            " {IOCB_FIELD}{place}=+{}(+{}(%{register})):x64[{IOCB_WORDS}]",
            8 * IOCB_FIRST_WORD,
            8 * operation
        );
    }
    fields
}

/// Fields of a part of a list of results, and of their number, which the call has returned.
fn completed(register: &str, part: Range<usize>) -> String {
    let mut fields = format!("{LIST_ADDRESS_FIELD}=%{register}:x64 {LIST_COUNT_FIELD}=%ax:s64");
    for (number, first) in part.clone().step_by(ARRAY_RESULTS).enumerate() {
        let number = if number == 0 { String::new() } else { number.to_string() };
        let words = (part.end - first).min(ARRAY_RESULTS) * IO_EVENT_BYTES / 8;
        let _ = write!(
            fields,
            " {LIST_FIELD}{number}=+{}(%{register}):x64[{words}]",
            first * IO_EVENT_BYTES
        );
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_each_pointer_of_the_list() {
        assert_eq!(
            submitted("dx", 0..2),
            "address=%dx:x64 list=+0(%dx):x64[2] iocb0=+8(+0(%dx)):x64[5] iocb1=+8(+8(%dx)):x64[5]"
        );
        assert_eq!(
            submitted("dx", 4..5),
            "address=%dx:x64 list=+32(%dx):x64[1] iocb0=+8(+32(%dx)):x64[5]"
        );
        assert_eq!(completed("r10", 0..16), "address=%r10:x64 count=%ax:s64 list=+0(%r10):x64[64]");
        assert_eq!(
            completed("r10", 16..33),
            "address=%r10:x64 count=%ax:s64 list=+512(%r10):x64[64] list1=+1024(%r10):x64[4]"
        );
    }
}
