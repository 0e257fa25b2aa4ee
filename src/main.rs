//! The command `iotrace-perf`: see `--help`.

/// Commit of the source, which the scripts that build the program name. The variable enters this
/// small crate only: the library, which takes minutes, is not compiled anew for each commit.
const COMMIT: Option<&str> = option_env!("IOTRACE_COMMIT");

fn main() -> std::process::ExitCode {
    iotrace_perf::cli::main(COMMIT)
}
