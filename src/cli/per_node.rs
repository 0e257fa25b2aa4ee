//! `--per-node`: of the tracers that a launcher starts on a node one records, and the others become
//! their programs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::args::RecordArgs;
use super::error::CliError;
use super::message::print_line;
use super::outputs::Outputs;
use crate::sys::spawn;
use crate::tracer::error::TracerError;
use crate::tracer::job;
use crate::tracer::node_ranks::{self, NodeRanks, NodeRole};

/// Part of this process in the recording of a node.
#[derive(Debug)]
pub(super) struct NodePart {
    /// Names of its outputs.
    pub(super) output: Vec<OsString>,
    /// Ranks that it records besides its own program, if it records a node.
    pub(super) ranks: Option<NodeRanks>,
}

/// Returns the part of this process, which may become its program here. To be called while this
/// process has one thread.
///
/// # Errors
///
/// No launcher has started this process, or the program cannot be run.
pub(super) fn part(args: &RecordArgs) -> Result<NodePart, CliError> {
    let output = args.output.clone();
    if !args.target.per_node {
        return Ok(NodePart { output, ranks: None });
    }
    let Some(rank) = job::own_rank() else { return Err(no_launcher()) };
    let role = match node_ranks::meet(&output, args.capture.all_cpus) {
        Ok(Some(role)) => role,
        Ok(None) => return Err(no_launcher()),
        Err(error) => NodeRole::Alone(format!("the ranks of this node cannot meet: {error}")),
    };
    let named = |output: &[OsString]| output.iter().map(|name| of_rank(name, rank)).collect();
    match role {
        NodeRole::Recorder(ranks) => {
            // Ranks of the node may have been recorded already: those of another network namespace,
            // or, if the launcher gives no local ranks, those that came before.
            let has_own_name = match job::own_local_rank() {
                Some(local) => local > 0,
                None => {
                    let main = Outputs::parse(&output)?.main;
                    rank > 0 && !args.force && main.is_some_and(|main| main.log().exists())
                }
            };
            let output = if has_own_name { named(&output) } else { output };
            Ok(NodePart { output, ranks: Some(ranks) })
        }
        NodeRole::Alone(why) => {
            print_line(&format!("rank {rank} is recorded to a log of its own: {why}"));
            Ok(NodePart { output: named(&output), ranks: None })
        }
        NodeRole::Unrecorded(why) => {
            print_line(&format!("warning: rank {rank} runs and may not be recorded: {why}"));
            Err(become_program(args))
        }
        NodeRole::Recorded => Err(become_program(args)),
    }
}

/// Returns the error of `--per-node` outside of a parallel job.
fn no_launcher() -> CliError {
    CliError::Usage(
        "--per-node: no launcher of a parallel job has started this process; start it with one, as mpirun -n 4 iotrace-perf --per-node \
         ./app, or leave out --per-node"
            .into(),
    )
}

/// Becomes the program. Returns only if that fails.
fn become_program(args: &RecordArgs) -> CliError {
    let command = &args.capture.command;
    let source = spawn::become_command(command);
    let program = command.first().map(|word| word.to_string_lossy().into_owned());
    let error = TracerError::Program { program: program.unwrap_or_default(), source };
    CliError::of_recording(error, args.capture.duration)
}

/// Returns the name of an output for one rank of a node, unless it has the rank already.
fn of_rank(name: &OsStr, rank: u64) -> OsString {
    let bytes = name.as_bytes();
    let has_own = ["{RANK}", "{PID}"]
        .iter()
        .any(|part| bytes.windows(part.len()).any(|window| window == part.as_bytes()));
    if has_own {
        return name.to_owned();
    }
    let is_directory = bytes.ends_with(b"/");
    let path = Path::new(name);
    let suffix = path.extension().filter(|_| !is_directory).map(OsStrExt::as_bytes);
    let end = suffix.map_or(0, |suffix| suffix.len() + 1) + usize::from(is_directory);
    let (stem, end) = bytes.split_at(bytes.len().saturating_sub(end));
    OsString::from_vec([stem, format!("_rank{rank}").as_bytes(), end].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if ranks that record themselves would write to the same files.
    #[test]
    fn outputs_of_single_ranks_have_their_number() {
        let named = |name: &str| of_rank(OsStr::new(name), 3).to_string_lossy().into_owned();
        assert_eq!(named("job_{HOSTNAME}.otf2"), "job_{HOSTNAME}_rank3.otf2");
        assert_eq!(named("a.b/job"), "a.b/job_rank3");
        assert_eq!(named("a.d/"), "a.d_rank3/");
        assert_eq!(named("{RANK}.iocap"), "{RANK}.iocap");
    }
}
