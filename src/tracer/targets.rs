//! Processes to which a recording attaches: those that the user has named, or those of a control
//! group, with their descendants.

use std::collections::BTreeSet;

use super::error::TracerError;
use super::options::TargetGroup;
use crate::sys::proc;
use crate::units::Pid;

/// Returns these processes at this moment, with their descendants if children are followed. Of a
/// group those are left out that have ended, because the user has named the group, not its
/// processes; of a control group also descendants in other control groups.
///
/// # Errors
///
/// A process that the user has named has ended.
pub(super) fn attached(
    roots: &[i32],
    group: Option<&TargetGroup>,
    follows_children: bool,
) -> Result<Vec<Pid>, TracerError> {
    let there: BTreeSet<Pid> = proc::processes().into_iter().collect();
    let roots: BTreeSet<Pid> = roots.iter().copied().map(Pid).collect();
    let tree = |roots: &[Pid]| match follows_children {
        true => proc::with_descendants(roots),
        false => roots.to_vec(),
    };
    let alive: Vec<Pid> = roots.intersection(&there).copied().collect();
    match (group, roots.difference(&there).next()) {
        (Some(TargetGroup::Control(_)), _) => {
            Ok(within_groups(&alive, tree(&alive), proc::cgroups))
        }
        (None, Some(gone)) => Err(TracerError::NoProcess(gone.0)),
        _ => Ok(tree(&alive)),
    }
}

/// Returns the processes that are in a control group of the roots, without this one.
fn within_groups(
    roots: &[Pid],
    tree: Vec<Pid>,
    groups_of: impl Fn(Pid) -> Option<Vec<u8>>,
) -> Vec<Pid> {
    let own = i32::try_from(std::process::id()).ok().map(Pid);
    let groups: BTreeSet<Vec<u8>> = roots.iter().filter_map(|root| groups_of(*root)).collect();
    let is_within = |pid: &Pid| {
        roots.contains(pid) || groups_of(*pid).is_some_and(|group| groups.contains(&group))
    };
    tree.into_iter().filter(|pid| Some(*pid) != own && is_within(pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a recording of a group begins with processes of other groups, such as the sessions
    /// of `ssh.service`, or with the tracer itself.
    #[test]
    fn descendants_in_other_groups_are_left_out() {
        let own = Pid(i32::try_from(std::process::id()).expect("a pid"));
        let groups_of = |pid: Pid| match pid {
            Pid(7 | 8) => Some(b"0::/a\n".to_vec()),
            Pid(9) => Some(b"0::/b\n".to_vec()),
            Pid(11) => None,
            pid if pid == own => Some(b"0::/a\n".to_vec()),
            _ => Some(b"0::/c\n".to_vec()),
        };
        let tree = [7, 9, 8, 10, 11].map(Pid).into_iter().chain([own]).collect();
        assert_eq!(within_groups(&[Pid(7), Pid(9)], tree, groups_of), [7, 9, 8].map(Pid));
    }
}
