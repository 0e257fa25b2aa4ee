//! Link discovery: makes a plan, and compares the symbolic links that the log shows with those that
//! the plan knows. If they differ, the plan is made again with the links found. They are compared
//! at intervals, so most plans that lack a link end early.

use std::cell::RefCell;

use super::plan_output::PlanOutput;
use super::planner::Planner;
use crate::operation::{Sink, Step};
use crate::replay::plan::links::{SymlinkEvidence, SymlinkMap};
use crate::units::KernelTime;

/// Number of calls before the first comparison of links. Programs load their libraries first,
/// mostly by a path through a link, so the first calls show most links.
const FIRST_COMPARISON: u64 = if cfg!(test) { 4 } else { 4096 };

/// Links that an earlier plan should have known, which ended it before the end of the log.
#[derive(Clone, Debug, Default)]
pub struct Outdated {
    /// Links that the log has shown.
    pub links: SymlinkMap,
    /// Number of calls after which they were found.
    pub calls: u64,
}

/// Planner with known links, which also collects the links that the log shows.
#[derive(Debug)]
pub struct LinkDiscovery<'a, O> {
    /// Planner of the operations.
    pub planner: Planner<O>,
    seen: SymlinkEvidence,
    known: &'a SymlinkMap,
    calls: u64,
    /// Number of calls at the next comparison. The distance doubles, so all plans together take no
    /// longer than three plans of the whole log.
    compare_at: u64,
    /// Set by the first comparison that differs. The planner gets no further steps then.
    outdated: &'a RefCell<Option<Outdated>>,
}

impl<'a, O: PlanOutput> LinkDiscovery<'a, O> {
    /// Creates a plan that knows the links of an earlier one, which ended as outdated after
    /// `known.calls` calls (0: there was no earlier one).
    pub fn new(out: O, known: &'a Outdated, outdated: &'a RefCell<Option<Outdated>>) -> Self {
        let planner = Planner::new(out).knowing(&known.links);
        let compare_at = FIRST_COMPARISON.max(known.calls.saturating_mul(2));
        Self {
            planner,
            seen: SymlinkEvidence::default(),
            known: &known.links,
            calls: 0,
            compare_at,
            outdated,
        }
    }

    /// Returns the links that the log has shown so far.
    pub fn links(&self) -> SymlinkMap {
        self.seen.links()
    }

    /// Returns true if the plan knows all links that the log has shown, and no others.
    pub fn is_right(&self) -> bool {
        self.outdated.borrow().is_none() && self.links() == *self.known
    }

    fn compare(&mut self) {
        self.compare_at = self.compare_at.saturating_mul(2);
        let links = self.links();
        if links != *self.known {
            *self.outdated.borrow_mut() = Some(Outdated { links, calls: self.calls });
        }
    }
}

impl<O: PlanOutput> Sink for LinkDiscovery<'_, O> {
    type Error = O::Error;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), O::Error> {
        self.seen.observe(step);
        if matches!(step, Step::SyscallEnded(..)) {
            self.calls += 1;
            if self.calls >= self.compare_at && self.outdated.borrow().is_none() {
                self.compare();
            }
        }
        if self.outdated.borrow().is_some() {
            return Ok(());
        }
        self.planner.step(time, step)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use super::{FIRST_COMPARISON, LinkDiscovery, Outdated};
    use crate::operation::model::{FilePath, OpenFile, PathArgument, PathArguments, PathSource};
    use crate::operation::{Sink, Step};
    use crate::replay::plan::dependencies::{OpId, Worker};
    use crate::replay::plan::links::SymlinkMap;
    use crate::replay::plan::planner::Planner;
    use crate::replay::plan::planner::tests::{KeptOps, TestCall, call};
    use crate::units::KernelTime;

    /// Plans calls of one process each.
    fn plan(links: &SymlinkMap, calls: &[(u32, &str, &str, i64)]) -> Planner<KeptOps> {
        let mut planner = Planner::new(KeptOps::default()).knowing(links);
        for (process, name, path, ret) in calls {
            let start = KernelTime(u64::from(*process) * 100);
            let end = KernelTime(start.0 + 7);
            let what = TestCall::new(name, [1; 6], *ret);
            let mut operation = call(what, *process, 1, start, end);
            let given = |path: &str| PathArgument {
                path: FilePath::new(path, PathSource::Uprobe),
                absolute: Some(path.into()),
            };
            let second = (*name == "symlink").then(|| given("f"));
            operation.named = Some(Box::new(PathArguments { first: Some(given(path)), second }));
            (operation.fd, operation.file) = (None, None);
            let step = Step::SyscallEnded(&operation, &[]);
            let Ok(()) = planner.step(end, &step);
        }
        planner
    }

    fn paths(planner: &Planner<KeptOps>) -> Vec<Vec<u8>> {
        planner.world.entries().into_iter().map(|entry| entry.path).collect()
    }

    /// Opens files by the given path and the path of the file, until the plan is outdated. Returns
    /// the number of opens that it took, the links found, and the number of operations in the plan.
    fn open(known: &Outdated, opens: &[(&str, &str)]) -> (usize, Option<Outdated>, usize) {
        let outdated = RefCell::new(None);
        let mut linked = LinkDiscovery::new(KeptOps::default(), known, &outdated);
        let mut taken = 0;
        for (number, (given, got)) in (0..).zip(opens) {
            let (start, end) = (KernelTime(number * 100), KernelTime(number * 100 + 7));
            let mut operation = call(TestCall::new("openat", [0; 6], 3), 1, 1, start, end);
            operation.file = Some(Arc::new(OpenFile {
                id: number,
                path: Some(FilePath::new(*got, PathSource::Link)),
                first_path: None,
                given: (given != got).then(|| given.as_bytes().into()),
                stat: None,
                flags: None,
                pre_created: false,
            }));
            let step = Step::SyscallEnded(&operation, &[]);
            let Ok(()) = linked.step(end, &step);
            taken += usize::from(outdated.borrow().is_none());
        }
        let (is_right, count) = (linked.is_right(), linked.planner.out.0.len());
        assert!(!is_right || outdated.borrow().is_none());
        (taken, outdated.take(), count)
    }

    /// Fails if a plan goes on that lacks a link, ends though it knows all of them, or ends twice
    /// for the same links.
    #[test]
    fn plan_without_a_link_ends_early() {
        let first = usize::try_from(FIRST_COMPARISON).expect("small");
        let mut opens = vec![("/l/x", "/d/x")];
        opens.extend(vec![("/d/y", "/d/y"); 4 * first]);
        let (taken, outdated, planned) = open(&Outdated::default(), &opens);
        assert_eq!((taken, planned), (first - 1, first - 1));
        let known = outdated.expect("a link");
        assert_eq!(known.links, [(b"/l".to_vec(), b"d".to_vec())].into_iter().collect());
        let (taken, outdated, planned) = open(&known, &opens);
        assert!(outdated.is_none() && taken == opens.len() && planned == opens.len());
        // A link that appears later: the first calls are not compared again.
        opens.extend([("/m/x", "/e/x")]);
        opens.extend(vec![("/d/y", "/d/y"); 4 * first]);
        let (taken, outdated, _) = open(&known, &opens);
        let both = outdated.expect("another link");
        assert_eq!((taken, both.calls), (8 * first - 1, 8 * FIRST_COMPARISON));
        let (taken, outdated, _) = open(&both, &opens);
        assert!(outdated.is_none() && taken == opens.len());
    }

    /// Fails if a call that goes through a link does not wait for the call that makes the target,
    /// or if the removal of the link does not wait for calls that went through it.
    #[test]
    fn path_through_a_link_names_the_target() {
        let links: SymlinkMap = [(b"/l".to_vec(), b"d".to_vec())].into_iter().collect();
        let planner = plan(
            &links,
            &[
                (1, "mkdir", "/d/t", 0),
                (2, "newstat", "/l/t", 0),
                (3, "unlink", "/l", 0),
                (4, "mkdir", "/l", 0),
            ],
        );
        let before: Vec<Vec<OpId>> = planner.out.0.iter().map(|op| op.before.clone()).collect();
        let after = |workers: &[u32]| -> Vec<OpId> {
            workers.iter().map(|number| OpId { worker: Worker(*number), number: 0 }).collect()
        };
        // The last one waits for the second through the third.
        assert_eq!(before, [&[][..], &[0], &[1], &[2]].map(after));
        assert_eq!(planner.world.unexplained, 0);
        assert_eq!(paths(&planner), [b"/d".to_vec(), b"/l".to_vec()]);
    }

    /// Fails if a link is there that was only made later, although a call had found nothing there.
    #[test]
    fn known_link_that_is_not_found_was_absent() {
        let links: SymlinkMap =
            [(b"/via".to_vec(), b"real".to_vec()), (b"/real/l".to_vec(), b"f".to_vec())]
                .into_iter()
                .collect();
        let absent = -i64::from(libc::ENOENT);
        let planner = plan(
            &links,
            &[
                (1, "newstat", "/via/f", 0),
                (2, "newstat", "/real/l", absent),
                (3, "symlink", "/via/l", 0),
                (4, "newstat", "/real/l", 0),
                (5, "newstat", "/real/none", absent),
            ],
        );
        assert_eq!((planner.world.unexplained, planner.skipped.len()), (0, 0));
        let expected = ["/real", "/real/f", "/via"].map(|path| path.as_bytes().to_vec());
        assert_eq!(paths(&planner), expected);
    }
}
