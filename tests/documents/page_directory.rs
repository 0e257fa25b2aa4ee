//! A directory in which the commands of a page run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::root;

/// Directory in which the recorded commands ran; documents show it.
const DEMO: &str = "/tmp/demo";

/// Destination of a command's standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errors {
    InOutput,
    Apart,
}

/// A directory in which the commands of one page run, removed at the end.
pub(crate) struct PageDirectory {
    pub(crate) folder: PathBuf,
}

impl Drop for PageDirectory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

impl PageDirectory {
    /// An empty directory, and beside it one with `iotrace-perf` and `sudo`.
    pub(crate) fn new(kind: &str, page: &str) -> Self {
        let name = page.replace(['/', '.'], "-");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("documents-{kind}-{name}-{}", std::process::id()));
        let place = Self { folder };
        fs::create_dir_all(place.demo()).expect("a directory");
        let programs = place.folder.join("bin");
        fs::create_dir(&programs).expect("a directory");
        let program = Path::new(env!("CARGO_BIN_EXE_iotrace-perf"));
        std::os::unix::fs::symlink(program, programs.join("iotrace-perf")).expect("a link");
        let sudo = programs.join("sudo");
        fs::write(&sudo, "#!/bin/sh\nexec \"$@\"\n").expect("a script");
        let mut rights = fs::metadata(&sudo).expect("there").permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
        fs::set_permissions(&sudo, rights).expect("its own file");
        place
    }

    fn demo(&self) -> PathBuf {
        self.folder.join("demo")
    }

    /// Puts the checked-in logs there as `NAME/traces.iocap`, except those that the page records.
    pub(crate) fn put_logs(&self, recorded: &str) {
        for entry in fs::read_dir(root().join("tests/documents/logs")).expect("the logs") {
            let log = entry.expect("readable").path();
            let name = log.file_stem().expect("a name").to_string_lossy().into_owned();
            if recorded.contains(&format!("-o {name}/ ")) {
                continue;
            }
            let folder = self.demo().join(&name);
            fs::create_dir(&folder).expect("a directory");
            fs::copy(&log, folder.join("traces.iocap")).expect("a copy");
        }
    }

    /// Runs a command, its output in a file, so that a program left in the background does not keep
    /// this one waiting. Returns whether it succeeded; `number` names the file.
    pub(crate) fn run(&self, number: usize, command: &str, errors: Errors) -> bool {
        let output = fs::File::create(self.output_file(number)).expect("a file");
        let errors = match errors {
            Errors::InOutput => output.try_clone().expect("the same file"),
            Errors::Apart => fs::File::create(self.folder.join("errors")).expect("a file"),
        };
        let mut shell = Command::new("timeout");
        shell.args(["-k", "5", "120", "bash", "-o", "pipefail", "-c", command]);
        shell.current_dir(self.demo()).env_clear().env("LC_ALL", "C");
        if let Some(home) = std::env::var_os("HOME") {
            shell.env("HOME", home);
        }
        let own = self.folder.join("bin");
        shell.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", own.display()));
        shell.stdin(std::process::Stdio::null()).stdout(output).stderr(errors);
        // `head` and the like end what feeds them.
        let code = shell.status().expect("timeout starts").code();
        matches!(code, Some(0 | 141)) || (code == Some(1) && command.starts_with("diff "))
    }

    fn output_file(&self, number: usize) -> PathBuf {
        self.folder.join(format!("output-{number}"))
    }

    /// The lines that a command has printed, with the names of the documents' machine.
    pub(crate) fn printed(&self, number: usize) -> Vec<String> {
        let bytes = fs::read(self.output_file(number)).expect("the command's output");
        let text = String::from_utf8_lossy(&bytes);
        let demo = fs::canonicalize(self.demo()).expect("it is there");
        text.replace(&*demo.to_string_lossy(), DEMO).lines().map(str::to_owned).collect()
    }
}
