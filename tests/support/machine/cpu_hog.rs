//! CPUs that are never idle, or busy with other programs.

use std::process::{Child, Command};

/// Programs that compute and do nothing else; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct CpuHog(Vec<Child>);

impl CpuHog {
    /// One program on each CPU that gives way to every other thread (`SCHED_IDLE`): completions
    /// find no idle CPU, and nothing is slower for it.
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

    /// Starts so many programs with the ordinary priority, which keep other threads waiting.
    #[track_caller]
    pub(crate) fn competing(programs: usize) -> Self {
        let spin = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
        Self((0..programs).map(|number| spin(number).expect("it starts")).collect())
    }
}

impl Drop for CpuHog {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A hog does not end by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
