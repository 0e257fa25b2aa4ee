//! Programs that must end in time.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Time between two looks at a program.
const PAUSE: Duration = Duration::from_millis(10);

/// A program that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Finished {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Itself, if the program ended with 0.
    ///
    /// # Panics
    ///
    /// Otherwise; the message has what the program wrote.
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        let (status, stdout, stderr) = (self.status, self.stdout(), self.stderr());
        assert!(status.success(), "{status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}");
        self
    }
}

/// The built `iotrace-perf`: a test gives `env!("CARGO_BIN_EXE_iotrace-perf")`, which only it has.
pub(crate) fn iotrace_perf(binary: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(arguments);
    command
}

/// Set for the process that [`is_own_process`] starts.
const OWN_PROCESS: &str = "IOTRACE_TEST_OWN_PROCESS";

/// True in a process that runs this test alone, so that memory which the kernel counts for a
/// process and its children is that of the test. Elsewhere starts such a process, waits for its
/// success, and returns false.
///
/// `test` is the path of the test in its program.
#[track_caller]
pub(crate) fn is_own_process(test: &str) -> bool {
    if std::env::var_os(OWN_PROCESS).is_some() {
        return true;
    }
    let this = std::env::current_exe().expect("Linux");
    let mut command = Command::new(this);
    command.args(["--exact", test, "--test-threads=1", "--nocapture"]).env(OWN_PROCESS, "1");
    let output = command.stderr(Stdio::inherit()).output().expect("this program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{test}: {said}");
    false
}

/// Runs a program without input, in a process group of its own, and gives what it wrote.
///
/// # Errors
///
/// If it cannot be started, or has not ended in time: then its process group is killed.
pub(crate) fn run(command: &mut Command, timeout: Duration) -> io::Result<Finished> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    let status = wait(&mut child, timeout);
    if status.is_err() {
        let group = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
        // The group may be gone by now; what remains is the child, which `wait` collects.
        let _ = killpg(group, Signal::SIGKILL);
        child.wait()?;
    }
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    match status {
        Ok(status) => Ok(Finished { status, stdout, stderr }),
        Err(error) => {
            let written = String::from_utf8_lossy(&stderr).into_owned();
            Err(io::Error::new(error.kind(), format!("{command:?}: {error}\n{written}")))
        }
    }
}

/// Waits for a program's end.
///
/// # Errors
///
/// `TimedOut` if it has not ended in time; it still runs then.
pub(crate) fn wait(child: &mut Child, timeout: Duration) -> io::Result<ExitStatus> {
    for _ in 0..=timeout.as_millis() / PAUSE.as_millis() {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        sleep(PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, format!("has not ended within {timeout:?}")))
}

fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    spawn(move || {
        let mut text = Vec::new();
        // Output read before an error is still worth showing.
        let _ = pipe.read_to_end(&mut text);
        text
    })
}

fn collect(thread: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    thread.and_then(|it| it.join().ok()).unwrap_or_default()
}
