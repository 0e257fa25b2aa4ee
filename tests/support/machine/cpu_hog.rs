//! CPUs that are never idle.

use std::process::{Child, Command};

/// A program on each CPU that does nothing else; they end when this is dropped.
///
/// They give way to every other thread (`SCHED_IDLE`): completions find no idle CPU, and nothing is
/// slower for it.
#[derive(Debug)]
pub(crate) struct CpuHog(Vec<Child>);

impl CpuHog {
    #[track_caller]
    pub(crate) fn all_cpus() -> Self {
        let cpus = std::thread::available_parallelism().expect("a number").get();
        let spin = |cpu: usize| {
            let cpu = cpu.to_string();
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu, "chrt", "--idle", "0", "sh", "-c", "while :; do :; done"]);
            command.spawn().expect("it starts")
        };
        Self((0..cpus).map(spin).collect())
    }
}

impl Drop for CpuHog {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It cannot have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
