//! Lines about the scope of a recording: what of its processes was left out, and by which means.

use super::excerpt_lines;
use crate::capture::header::JobPlace;
use crate::pipeline::Summary;
use crate::text::quantity::counted_as;

/// Returns the place of the program in a parallel job.
pub(super) fn job(job: &JobPlace) -> String {
    let JobPlace { rank, size, local_rank, manager, id, step } = job;
    let number = |name: &str, number: &Option<u64>| number.map(|number| format!("{name}{number}"));
    let word = |name: &str, word: &str| (!word.is_empty()).then(|| format!("{name}{word}"));
    let rank = rank.map(|rank| match size {
        Some(size) => format!("rank {rank} of {size}"),
        None => format!("rank {rank}"),
    });
    let size = number("processes ", size).filter(|_| rank.is_none());
    let id = word(&format!("{manager} job "), id);
    let parts = [rank, size, number("local rank ", local_rank), id, word("step ", step)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns a line for each part that was left out.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let scope = &summary.header.scope;
    let excerpt = summary.header.excerpt.as_ref();
    let mut lines: Vec<String> =
        excerpt.map(|excerpt| excerpt_lines::lines(excerpt, summary.start())).unwrap_or_default();
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

    #[test]
    fn place_in_a_job_has_its_known_parts() {
        let place =
            JobPlace { rank: Some(3), size: Some(8), local_rank: Some(1), ..JobPlace::default() };
        assert_eq!(job(&place), "rank 3 of 8, local rank 1");
        let managed =
            JobPlace { manager: "slurm".into(), id: "4711".into(), step: "0".into(), ..place };
        assert_eq!(job(&managed), "rank 3 of 8, local rank 1, slurm job 4711, step 0");
        assert_eq!(job(&JobPlace { size: Some(8), ..JobPlace::default() }), "processes 8");
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
