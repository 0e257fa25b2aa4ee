//! Lines about the scope of a recording: what of its processes was left out, and by which means.

use super::excerpt_lines;
use crate::capture::header::JobPlace;
use crate::pipeline::Summary;
use crate::text::quantity::{counted, counted_as};

/// Number of ranks that are shown with their processes.
const RANKS_SHOWN: usize = 8;

/// Returns the place of the program in a parallel job.
pub(super) fn job(job: &JobPlace) -> String {
    let JobPlace { rank, size, local_rank, local_size, manager, id, step } = job;
    let number = |name: &str, number: &Option<u64>| number.map(|number| format!("{name}{number}"));
    let word = |name: &str, word: &str| (!word.is_empty()).then(|| format!("{name}{word}"));
    let rank = rank.map(|rank| match size {
        Some(size) => format!("rank {rank} of {size}"),
        None => format!("rank {rank}"),
    });
    let size = number("processes ", size).filter(|_| rank.is_none());
    let id = word(&format!("{manager} job "), id);
    let local = number("local rank ", local_rank).map(|local| match local_size {
        Some(size) => format!("{local} of {size}"),
        None => local,
    });
    let parts = [rank, size, local, id, word("step ", step)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the lines about the ranks of a node that were recorded together.
fn ranks(summary: &Summary) -> Vec<String> {
    let ranks = &summary.header.scope.ranks;
    if ranks.is_empty() {
        return Vec::new();
    }
    let shown = ranks.iter().take(RANKS_SHOWN).map(|process| match process.rank {
        Some(rank) => format!("{rank} is process {}", process.pid),
        None => format!("process {} has an unknown one", process.pid),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = match ranks.len().saturating_sub(RANKS_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let mut lines =
        vec![format!("{} of this node: {shown}{more}", counted(ranks.len() as u64, "rank"))];
    if summary.end.as_ref().is_some_and(|end| end.reason == "failed rank") {
        let rank = summary.header.job.as_ref().and_then(|job| job.rank);
        let rank =
            rank.map_or_else(|| "the recorder's rank".to_owned(), |rank| format!("rank {rank}"));
        lines.push(format!(
            "the recording ended 2 s after the program of {rank} had failed; other ranks were still running"
        ));
    }
    lines
}

/// Returns a line for each part that was left out.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let scope = &summary.header.scope;
    let excerpt = summary.header.excerpt.as_ref();
    let mut lines: Vec<String> =
        excerpt.map(|excerpt| excerpt_lines::lines(excerpt, summary.start())).unwrap_or_default();
    lines.extend(ranks(summary));
    if scope.children_left_out && scope.threads.is_empty() {
        lines.push(match summary.ledger.children_left_out {
            0 => "no child was left out (--no-follow): none was started".to_owned(),
            children => format!(
                "{} not followed (--no-follow)",
                counted_as(children, ["child was", "children were"])
            ),
        });
    }
    if !scope.threads.is_empty() {
        let process = if scope.roots.len() == 1 { "process" } else { "processes" };
        lines.push(format!(
            "other threads of the {process}, which share its descriptors, are in the log and not shown"
        ));
    }
    if !scope.excluded.is_empty() {
        let processes = match scope.excluded.as_slice() {
            [pid] => format!("process {pid} and its children are"),
            all => format!("{} processes and their children are", all.len()),
        };
        lines.push(match scope.excluded_in_kernel {
            true => format!("{processes} left out by the kernel (--exclude-pid)"),
            false => format!("{processes} left out of reports, but not of the log (--exclude-pid)"),
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::header::{End, ProcessRank};

    #[test]
    fn place_in_a_job_has_its_known_parts() {
        let place =
            JobPlace { rank: Some(3), size: Some(8), local_rank: Some(1), ..JobPlace::default() };
        assert_eq!(job(&place), "rank 3 of 8, local rank 1");
        let sized = JobPlace { local_size: Some(4), ..place.clone() };
        assert_eq!(job(&sized), "rank 3 of 8, local rank 1 of 4");
        let managed =
            JobPlace { manager: "slurm".into(), id: "4711".into(), step: "0".into(), ..place };
        assert_eq!(job(&managed), "rank 3 of 8, local rank 1, slurm job 4711, step 0");
        assert_eq!(job(&JobPlace { size: Some(8), ..JobPlace::default() }), "processes 8");
    }

    #[test]
    fn ranks_of_a_node_have_their_processes() {
        let mut summary = Summary::default();
        let rank = |rank: u64| ProcessRank {
            pid: 100 + i32::try_from(rank).expect("small"),
            rank: Some(rank),
            local_rank: Some(rank),
        };
        summary.header.scope.ranks = (0..2).map(rank).collect();
        let first = "2 ranks of this node: 0 is process 100, 1 is process 101";
        assert_eq!(lines(&summary), [first]);
        summary.header.scope.ranks = (0..11).map(rank).collect();
        assert!(lines(&summary)[0].ends_with("7 is process 107 and 3 more"));
        summary.end = Some(End { reason: "failed rank".into(), ..End::default() });
        assert!(lines(&summary)[1].contains("the program of the recorder's rank had failed"));
    }

    #[test]
    fn each_part_that_is_left_out_has_a_line() {
        let mut summary = Summary::default();
        assert!(lines(&summary).is_empty());
        summary.header.scope.children_left_out = true;
        assert_eq!(lines(&summary), ["no child was left out (--no-follow): none was started"]);
        summary.ledger.children_left_out = 1234;
        assert_eq!(lines(&summary), ["1,234 children were not followed (--no-follow)"]);
        summary.header.scope.threads = vec![7];
        assert!(lines(&summary).iter().all(|line| line.starts_with("other threads of")));
        let mut summary = Summary::default();
        summary.header.scope.excluded = vec![5];
        let shown = [
            "process 5 and its children are left out of reports, but not of the log (--exclude-pid)",
        ];
        assert_eq!(lines(&summary), shown);
        summary.header.scope.excluded = vec![5, 6];
        summary.header.scope.excluded_in_kernel = true;
        let shown = ["2 processes and their children are left out by the kernel (--exclude-pid)"];
        assert_eq!(lines(&summary), shown);
    }
}
