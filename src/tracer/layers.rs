//! Probes at the entries and returns of kernel functions that form one layer.
//!
//! Unlike probes of names they need no test: a function that is not called, because the compiler
//! has inlined it, produces no samples, and no wrong ones.

use super::tracepoint_plan::SourceKind;
use crate::event::layer::{ENTER_PREFIX, LAYER_FUNCTIONS, LEAVE_PREFIX};
use crate::sys::probe_events::{ProbeGroup, ProbeKind, ProbePosition};
use crate::sys::tracefs::Tracefs;
use crate::sys::tracefs_instance::Instance;
use crate::units::counted;

/// Source of layer events, and the reason for it.
#[derive(Debug)]
pub(super) struct Layers {
    probes: Option<(ProbeGroup, Instance)>,
    /// Reason, as text.
    pub reason: String,
}

impl Layers {
    /// Creates probes where this kernel and this source allow them; otherwise tracepoints are used.
    pub(super) fn find(tracefs: &Tracefs, source: SourceKind) -> Self {
        let made = match source {
            SourceKind::Perf | SourceKind::Inherited => {
                Err("kprobes are used with --source tracefs only".to_owned())
            }
            SourceKind::Tracefs => Self::probe(tracefs),
        };
        match made {
            Ok((probes, reason)) => Self { probes: Some(probes), reason },
            Err(reason) => Self { probes: None, reason },
        }
    }

    fn probe(tracefs: &Tracefs) -> Result<((ProbeGroup, Instance), String), String> {
        let mut group = ProbeGroup::new(tracefs, ProbeKind::Kernel).map_err(|it| it.to_string())?;
        let lock = Instance::create(tracefs, "layers").map_err(|it| it.to_string())?;
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        let mut refused = String::new();
        for (function, _) in LAYER_FUNCTIONS {
            // The return is defined first: an entry without a return would begin intervals that
            // never end.
            let both = group
                .define(ProbePosition::Return, &format!("{LEAVE_PREFIX}{function}"), function, "")
                .and_then(|()| {
                    group.define(
                        ProbePosition::Entry,
                        &format!("{ENTER_PREFIX}{function}"),
                        function,
                        "",
                    )
                });
            match both {
                Ok(()) => there.push(function),
                Err(why) => {
                    refused = why.to_string();
                    missing.push(function);
                }
            }
        }
        if there.is_empty() {
            return Err(format!(
                "none of these functions can be probed on this kernel ({refused})"
            ));
        }
        let missing = match missing.as_slice() {
            [] => String::new(),
            missing => format!("; not on this kernel: {}", missing.join(", ")),
        };
        Ok(((group, lock), format!("{}{missing}", there.join(", "))))
    }

    /// Returns the probes, and the instance that shows that their tracer is alive.
    pub(super) fn into_parts(self) -> Option<(ProbeGroup, Instance)> {
        self.probes
    }

    /// True if functions are probed.
    pub(super) fn has_probes(&self) -> bool {
        self.probes.is_some()
    }

    /// System and name of each probe.
    pub(super) fn tracepoints(&self) -> impl Iterator<Item = (&str, &str)> {
        let groups = self.probes.iter().map(|it| &it.0);
        groups.flat_map(|it| it.events().iter().map(|event| (it.name(), event.as_str())))
    }

    /// Returns a warning about missed probes.
    pub(super) fn missed(&self) -> Option<String> {
        let (group, _) = self.probes.as_ref()?;
        match group.missed() {
            Ok(0) => None,
            Ok(missed) => Some(format!(
                "kprobes of layers were missed {}, by any program: at most this number of times of `latency` is missing",
                counted(missed, "time")
            )),
            Err(error) => Some(format!("the number of missed kprobes is unknown: {error}")),
        }
    }
}
