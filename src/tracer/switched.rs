//! Watch on the switches of tracefs rings. Root can switch an instance of tracefs off and on again,
//! and the kernel does not count the events that are not recorded in the meantime.
//!
//! So a drain thread reads the switch (`tracing_on`) now and then. A ring that was off for less
//! than the time between two looks is not detected.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::tracepoint_plan::RingKind;
use crate::units::KernelTime;

/// Time between two looks, ns. Each look is a read, which a recording of the whole system has in
/// its log.
const LOOK_NS: u64 = 250_000_000;

/// Largest number of gaps that are reported one by one.
const GAPS_SHOWN: usize = 8;

/// Switches of all rings.
#[derive(Debug, Default)]
pub struct SwitchWatch {
    switches: Vec<Switch>,
    /// True when the tracer itself switches the rings off.
    is_over: Arc<AtomicBool>,
    last_look: KernelTime,
    start: Option<KernelTime>,
    /// Ring that was off, the last time at which it was still on, and the time at which it was on
    /// again.
    gaps: Vec<(RingKind, KernelTime, KernelTime)>,
}

#[derive(Debug)]
struct Switch {
    ring: RingKind,
    file: File,
    /// Last time at which the switch was on.
    on: Option<KernelTime>,
    /// True if the ring was found off, and not on again since.
    is_off: bool,
}

impl SwitchWatch {
    /// Returns a watch on these rings, each with its switch.
    pub(super) fn new(switches: Vec<(RingKind, File)>, is_over: Arc<AtomicBool>) -> Self {
        let switch = |(ring, file)| Switch { ring, file, on: None, is_off: false };
        let switches = switches.into_iter().map(switch).collect();
        Self { switches, is_over, ..Self::default() }
    }

    /// Reads all switches, if it is time.
    pub(super) fn look(&mut self, now: KernelTime) {
        let start = *self.start.get_or_insert(now);
        if now.0.saturating_sub(self.last_look.0) < LOOK_NS {
            return;
        }
        self.last_look = now;
        for switch in &mut self.switches {
            let is_on = is_on(&switch.file);
            // ORDERING: Acquire: the tracer sets the flag before it switches the rings off.
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            match is_on {
                Some(true) => {
                    let from = switch.on.replace(now).unwrap_or(start);
                    if std::mem::take(&mut switch.is_off) {
                        self.gaps.push((switch.ring, from, now));
                    }
                }
                // The first look may come before the tracer switches the rings on.
                Some(false) => switch.is_off = switch.on.is_some() || now > start,
                None => {}
            }
        }
    }

    /// Returns a message about rings that were switched off and on again. A ring that is still off
    /// is reported by its source.
    pub(super) fn warning(&self) -> Option<String> {
        let start = self.start?;
        let seconds = |time: &KernelTime| {
            let ms = time.0.saturating_sub(start.0) / 1_000_000;
            format!("{}.{:03}", ms / 1000, ms % 1000)
        };
        let gap = |(ring, from, until): &(RingKind, KernelTime, KernelTime)| {
            format!("{} between {} s and {} s", ring.as_str(), seconds(from), seconds(until))
        };
        let mut shown: Vec<String> = self.gaps.iter().take(GAPS_SHOWN).map(gap).collect();
        let more = self.gaps.len().saturating_sub(GAPS_SHOWN);
        shown.extend((more > 0).then(|| format!("{more} more times")));
        (!shown.is_empty()).then(|| {
            format!(
                "another process has switched tracefs instances of this recording off and on again: {} after the start; events \
                 of these times are missing, and the kernel has not counted them",
                shown.join(", ")
            )
        })
    }
}

/// Returns the state of a switch; `None`: it cannot be read.
fn is_on(switch: &File) -> Option<bool> {
    let mut text = [0; 8];
    let read = switch.read_at(&mut text, 0).ok()?;
    match text.get(..read)?.trim_ascii() {
        b"1" => Some(true),
        b"0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switched_off_ring_is_reported() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let is_over = Arc::new(AtomicBool::new(false));
        let switch = vec![(RingKind::Main, file.reopen().expect("it is there"))];
        let mut watch = SwitchWatch::new(switch, Arc::clone(&is_over));
        let mut look = |watch: &mut SwitchWatch, ms: u64, text: &str| {
            use std::io::{Seek, Write};
            file.rewind().expect("a file");
            write!(file, "{text}").expect("written");
            watch.look(KernelTime(5_000_000_000 + ms * 1_000_000));
        };
        // Not on yet.
        look(&mut watch, 0, "0\n");
        look(&mut watch, 1_000, "1\n");
        // Too early for the next look.
        look(&mut watch, 1_100, "0\n");
        look(&mut watch, 1_300, "1\n");
        assert_eq!(watch.warning(), None);
        look(&mut watch, 1_600, "0\n");
        look(&mut watch, 1_900, "0\n");
        assert_eq!(watch.warning(), None, "it may be that it stays off");
        look(&mut watch, 2_500, "1\n");
        let warning = watch.warning().expect("it was off");
        assert!(
            warning.contains(": main between 1.300 s and 2.500 s after the start;"),
            "{warning}"
        );
        // Switched off by the tracer itself.
        // ORDERING: as the session does.
        is_over.store(true, Ordering::Release);
        look(&mut watch, 3_000, "0\n");
        look(&mut watch, 4_000, "1\n");
        assert_eq!(watch.warning().as_ref(), Some(&warning));
    }
}
