use std::sync::atomic::AtomicU32;

use super::*;
use crate::units::Tid;

/// A source that counts how often it is switched on.
#[derive(Debug, Default)]
struct Switched(AtomicU32);

impl Switched {
    fn times(&self) -> u32 {
        // ORDERING: one thread uses it.
        self.0.load(Ordering::Relaxed)
    }
}

impl Source for Switched {
    fn enable(&self) -> io::Result<()> {
        // ORDERING: one thread uses it.
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn disable(&self) -> io::Result<()> {
        Ok(())
    }

    fn follow(&self, _: &dyn Fn() -> Vec<Tid>) -> io::Result<bool> {
        Ok(true)
    }

    fn tracepoints(&self) -> &[super::super::source::Described] {
        &[]
    }

    fn layouts(&self) -> Vec<header::RecordLayout> {
        Vec::new()
    }

    fn counts(&self) -> io::Result<KernelCounts> {
        Ok(KernelCounts::default())
    }
}

/// Fails if events are on before a thread takes them from the rings: on a busy machine rings
/// overflowed before the first call.
#[test]
fn rings_are_drained_before_anything_is_switched_on() {
    let source = Switched::default();
    let mut before = None;
    let started = switch_on(Vec::new(), &source, |_, _| {
        before = Some(source.times());
        // Pretends that threads do not start.
        Err(TracerError::LogThread)
    });
    assert!(started.is_err());
    assert_eq!((before, source.times()), (Some(0), 0));
}
