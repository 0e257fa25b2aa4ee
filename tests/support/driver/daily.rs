//! The shell lines of `tests/programs/daily.txt`: read, and run where what they need is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::driver::process;
use crate::support::driver::recording::{Source, TIMEOUT};

/// A line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// Script for `bash -c`.
    pub script: &'a str,
    /// Without this program there is nothing to run.
    pub program: Option<&'a str>,
    /// Processes are left that no process waits for.
    pub leaves: bool,
}

impl<'a> Line<'a> {
    /// All lines of the table.
    pub(crate) fn all(table: &'a str) -> Vec<Self> {
        let is_line = |it: &&str| !it.is_empty() && !it.starts_with('#');
        table.lines().filter(is_line).map(Self::parse).collect()
    }

    fn parse(line: &'a str) -> Self {
        let (leaves, line) = line.strip_prefix("~ ").map_or((false, line), |it| (true, it));
        let program = line.strip_prefix('@').and_then(|it| it.split_once(' '));
        let (program, script) = program.map_or((None, line), |it| (Some(it.0), it.1));
        Self { script, program, leaves }
    }

    /// True if what it needs is there.
    pub(crate) fn can_run(&self) -> bool {
        let found =
            |it: &str| Command::new("sh").args(["-c", &format!("command -v {it}")]).output();
        self.program.is_none_or(|it| found(it).is_ok_and(|it| it.status.success()))
    }
}

/// Creates the files that the lines find in their directory.
pub(crate) fn make_place(place: &Path) {
    let numbered = |word: &str, count: usize| {
        (0..count).map(|it| format!("{word} {it}\n")).collect::<String>()
    };
    fs::create_dir_all(place.join("tree")).expect("make it");
    let bytes: Vec<u8> =
        (0_u32..300_000).map(|it| (it.wrapping_mul(it) >> 7).to_le_bytes()[0]).collect();
    let numbers: String = (0..300).map(|it| format!("{}\n", it * 7919 % 101)).collect();
    let hello = "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n";
    let makefile = "all: a b c d\na b c d: hello.c\n\tgcc -O1 -o $@ $<\nclean:\n\trm -f a b c d\n";
    let files: [(&str, Vec<u8>); 7] = [
        ("text", numbered("line", 1000).into()),
        ("words", numbered("word", 300).into()),
        ("list", numbers.into()),
        ("table.csv", "a,1,x\nb,2,y\nc,3,z\n".into()),
        ("data", bytes),
        ("hello.c", hello.into()),
        ("Makefile", makefile.into()),
    ];
    for (name, content) in files {
        fs::write(place.join(name), content).expect("write it");
    }
    for number in 0..20 {
        let name = place.join("tree").join(format!("f{number}"));
        fs::write(name, numbered("line", number)).expect("write it");
    }
    let script = "git init -q repo && cp -r text tree repo && cd repo && git config user.name x \
                  && git config user.email x@y && git add -A && git commit -qm first && echo more >> text";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(place);
    process::run(&mut shell, TIMEOUT).expect("it ends").success();
}

/// Directories of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineDirectories<'a> {
    /// Directory of the copy and of the recording.
    pub dir: &'a Path,
    /// Directory on another file system.
    pub other: &'a Path,
}

/// Returns the audit of a line that is run in a copy of that directory.
pub(crate) fn audit_of(
    source: Source,
    line: Line<'_>,
    model: &Path,
    directories: &LineDirectories<'_>,
) -> String {
    let LineDirectories { dir, other } = *directories;
    let place = dir.join("place");
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(model).arg(&place);
    process::run(&mut copy, TIMEOUT).expect("it ends").success();
    let mut command = source.recorder(&dir.join("trace"), &[], &["bash", "-c", line.script]);
    command.current_dir(&place).env("OTHER", other).env("HOME", &place);
    let finished = process::run(&mut command, TIMEOUT).expect("it ends");
    let text = finished.stderr();
    let audit = text.lines().find(|it| it.contains("audit: "));
    audit.map_or_else(|| format!("no audit: {text}"), str::to_owned)
}

/// The path of the table.
pub(crate) fn table() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/daily.txt")
}
