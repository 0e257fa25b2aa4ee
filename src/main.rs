//! The command `iotrace-perf`: see `--help`.

fn main() -> std::process::ExitCode {
    iotrace_perf::cli::main()
}
