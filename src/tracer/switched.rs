//! Whether our rings stay switched on: root can switch an instance of tracefs off and on again, and the kernel counts
//! nothing of what it does not record meanwhile.
//!
//! So a drain thread looks at the switch (`tracing_on`) now and then. What was switched off for less than the time between two looks
//! is not seen.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::plan::RingOf;
use crate::units::KernelTime;

/// How long there is between two looks, ns. Each is a read, which a recording of the whole system has in its log.
const LOOK_NS: u64 = 250_000_000;

/// Times that are told one by one.
const TOLD_MAX: usize = 8;

/// The switches of all rings.
#[derive(Debug, Default)]
pub struct SwitchWatch {
    switches: Vec<Switch>,
    /// True when we switch them off ourselves.
    is_over: Arc<AtomicBool>,
    last_look: KernelTime,
    start: Option<KernelTime>,
    /// Which ring was off, from when on at the latest, and until when at least.
    gaps: Vec<(RingOf, KernelTime, KernelTime)>,
}

#[derive(Debug)]
struct Switch {
    ring: RingOf,
    file: File,
    /// When it was seen on last.
    on: Option<KernelTime>,
    /// It was found off, and not on again.
    is_off: bool,
}

impl SwitchWatch {
    /// Of these rings, each with its switch.
    pub(super) fn new(switches: Vec<(RingOf, File)>, is_over: Arc<AtomicBool>) -> Self {
        let switch = |(ring, file)| Switch { ring, file, on: None, is_off: false };
        let switches = switches.into_iter().map(switch).collect();
        Self { switches, is_over, ..Self::default() }
    }

    /// Looks at all of them, if it is time to.
    pub(super) fn look(&mut self, now: KernelTime) {
        let start = *self.start.get_or_insert(now);
        if now.0.saturating_sub(self.last_look.0) < LOOK_NS {
            return;
        }
        self.last_look = now;
        for switch in &mut self.switches {
            let is_on = is_on(&switch.file);
            // ORDERING: Acquire: if it was us that switched it off, this was said before.
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
                Some(false) => switch.is_off = true,
                None => {}
            }
        }
    }

    /// What to say of the times in which a ring was switched off and on again. One that is still off is told of by its
    /// source.
    pub(super) fn told(&self) -> Option<String> {
        let start = self.start?;
        let seconds = |it: &KernelTime| {
            let ms = it.0.saturating_sub(start.0) / 1_000_000;
            format!("{}.{:03}", ms / 1000, ms % 1000)
        };
        let gap = |(ring, from, until): &(RingOf, KernelTime, KernelTime)| {
            format!("{} between {} s and {} s", ring.as_str(), seconds(from), seconds(until))
        };
        let mut told: Vec<String> = self.gaps.iter().take(TOLD_MAX).map(gap).collect();
        let more = self.gaps.len().saturating_sub(TOLD_MAX);
        told.extend((more > 0).then(|| format!("{more} more times")));
        (!told.is_empty()).then(|| {
            format!(
                "another process has switched tracefs instances of this recording off and on again: {} after the start; what \
                 happened then is missing, and the kernel has not counted it",
                told.join(", ")
            )
        })
    }
}

/// `None`: it cannot be read.
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
    fn a_ring_that_was_off_for_a_while_is_told() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let is_over = Arc::new(AtomicBool::new(false));
        let switch = vec![(RingOf::Main, file.reopen().expect("it is there"))];
        let mut watch = SwitchWatch::new(switch, Arc::clone(&is_over));
        let mut look = |watch: &mut SwitchWatch, ms: u64, text: &str| {
            use std::io::{Seek, Write};
            file.rewind().expect("a file");
            write!(file, "{text}").expect("written");
            watch.look(KernelTime(5_000_000_000 + ms * 1_000_000));
        };
        look(&mut watch, 0, "1\n");
        // Not yet.
        look(&mut watch, 100, "0\n");
        look(&mut watch, 300, "1\n");
        assert_eq!(watch.told(), None);
        look(&mut watch, 600, "0\n");
        look(&mut watch, 900, "0\n");
        assert_eq!(watch.told(), None, "it may be that it stays off");
        look(&mut watch, 1500, "1\n");
        let told = watch.told().expect("it was off");
        assert!(told.contains(": main between 0.300 s and 1.500 s after the start;"), "{told}");
        // Our own doing.
        // ORDERING: as the session does.
        is_over.store(true, Ordering::Release);
        look(&mut watch, 2000, "0\n");
        look(&mut watch, 3000, "1\n");
        assert_eq!(watch.told().as_ref(), Some(&told));
    }
}
