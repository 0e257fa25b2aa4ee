//! Programs that open many files, each in its own way.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::driver::process;
use crate::support::driver::recording::{TIMEOUT, compile};
use crate::support::machine::requirements::Need;
use crate::support::text;

/// A program and what it works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub name: &'static str,
    pub needs: &'static [Need],
    /// Makes what it works on, in a directory that is there.
    prepare: fn(&Path),
    /// The program, which reads what was made in the first directory and works in the second.
    command: fn(&Path, &Path) -> Vec<String>,
}

/// Files that `tar` packs.
const TAR_FILES: usize = 700;
/// Files that `find` starts a `head` for.
const HEAD_FILES: usize = 60;
/// Places that the loader searches, in which nothing is.
const SEARCHED: usize = 3;
/// Threads of the storm.
pub(crate) const STORM_THREADS: usize = 4;
/// Files that each of them opens.
pub(crate) const STORM_FILES: usize = 600;
/// Files in the repository, in directories of ten; each is changed once.
const REPOSITORY_FILES: usize = 120;
/// Documents that each machine has some of.
const DOCUMENTS: &str = "/usr/share/doc";

pub(crate) const ALL: &[Workload] = &[
    Workload { name: "tar", needs: &[Need::Program("tar")], prepare: |_| (), command: tar },
    Workload {
        name: "git clone",
        needs: &[Need::Program("git")],
        prepare: make_repository,
        command: clone,
    },
    Workload {
        name: "find -exec head",
        needs: &[Need::Program("find")],
        prepare: |_| (),
        command: heads,
    },
    Workload {
        name: "the same, searching",
        needs: &[Need::Program("find")],
        prepare: make_searched,
        command: searches,
    },
    Workload {
        name: "python3 imports",
        needs: &[Need::Program(PYTHON)],
        prepare: |_| (),
        command: imports,
    },
    Workload { name: "storm of 4 threads", needs: &[], prepare: make_storm, command: storm },
    Workload { name: "gcc", needs: &[Need::Program("gcc")], prepare: make_sources, command: gcc },
];

/// The distribution's own: others in the search path may be scripts.
const PYTHON: &str = "/usr/bin/python3";

/// Files of a program: made once, and copied to a directory of its own for each run.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub workload: Workload,
    dir: PathBuf,
}

impl Workload {
    /// By its name.
    #[track_caller]
    pub(crate) fn of(name: &str) -> Self {
        *ALL.iter().find(|it| it.name == name).expect("a row of the table")
    }

    /// Makes what it works on.
    #[track_caller]
    pub(crate) fn prepare(self, dir: &Path) -> Prepared {
        let inputs = dir.join("inputs");
        fs::create_dir(&inputs).expect("make it");
        (self.prepare)(&inputs);
        Prepared { workload: self, dir: dir.into() }
    }
}

impl Prepared {
    /// A new place for a run, and the program that works there.
    #[track_caller]
    pub(crate) fn next(&self, number: usize) -> (PathBuf, Vec<String>) {
        let place = self.dir.join(format!("run-{number}"));
        fs::create_dir(&place).expect("make it");
        let command = (self.workload.command)(&self.dir.join("inputs"), &place);
        (place, command)
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|&it| it.to_owned()).collect()
}

#[track_caller]
fn run(program: &str, arguments: &[&str], dir: &Path) {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir);
    process::run(&mut command, TIMEOUT).expect("it ends").success();
}

/// Directories of documents, in order, until they have so many files.
fn documents(wanted: usize) -> Vec<String> {
    let entries = fs::read_dir(DOCUMENTS).map(|it| it.flatten().collect::<Vec<_>>());
    let mut folders: Vec<PathBuf> =
        entries.unwrap_or_default().iter().map(fs::DirEntry::path).collect();
    folders.retain(|it| !it.is_symlink() && it.is_dir());
    folders.sort();
    let (mut files, mut chosen) = (0, Vec::new());
    for folder in folders {
        if files >= wanted {
            break;
        }
        files += fs::read_dir(&folder).map_or(0, Iterator::count);
        chosen.push(text(&folder).to_owned());
    }
    chosen
}

fn tar(_: &Path, place: &Path) -> Vec<String> {
    let mut command = words(&["tar", "-cf", text(&place.join("documents.tar"))]);
    command.extend(documents(TAR_FILES));
    command
}

/// Without places that the loader would search.
fn heads(_: &Path, place: &Path) -> Vec<String> {
    found(place, &["-u", "LD_LIBRARY_PATH"])
}

/// The loader looks for each library of each process in many places that have none: it makes the
/// paths of these opens in one buffer, and of the directories, too, which it asks about with calls
/// that are not recorded by default.
fn searches(inputs: &Path, place: &Path) -> Vec<String> {
    let places: Vec<String> =
        (0..SEARCHED).map(|it| text(&inputs.join(format!("place {it}"))).to_owned()).collect();
    found(place, &[&format!("LD_LIBRARY_PATH={}", places.join(":"))])
}

fn make_searched(dir: &Path) {
    for number in 0..SEARCHED {
        fs::create_dir(dir.join(format!("place {number}"))).expect("make it");
    }
}

fn found(place: &Path, environment: &[&str]) -> Vec<String> {
    let mut command = words(&["env"]);
    command.extend(words(environment));
    command.extend(words(&["sh", "-c", "out=$1; shift; exec find \"$@\" >$out", "sh"]));
    command.push(text(&place.join("heads")).to_owned());
    command.extend(documents(HEAD_FILES));
    command.extend(words(&["-type", "f", "-exec", "head", "-c", "100", "{}", ";"]));
    command
}

fn imports(_: &Path, place: &Path) -> Vec<String> {
    let program = format!(
        "import asyncio, csv, ctypes, decimal, difflib, email.mime.text, http.client, json, logging, sqlite3, tarfile\n\
         import tempfile, unittest, urllib.request, xml.dom.minidom, zipfile, os, subprocess\n\
         inherited = os.open('{0}/inherited', os.O_CREAT | os.O_RDWR)\n\
         os.set_inheritable(inherited, True)\n\
         closed = open('{0}/closed', 'w')\n\
         subprocess.run(['sh', '-c', 'echo a >&%d; echo b' % inherited], close_fds=False, stdout=closed, check=True)\n\
         with tempfile.NamedTemporaryFile(dir='{0}', prefix='tmp_py_', suffix='') as it: it.write(b'x' * 4099)\n",
        text(place)
    );
    words(&[PYTHON, "-B", "-c", &program])
}

fn make_repository(dir: &Path) {
    let place = dir.join("repository");
    for version in 0..2 {
        for number in 0..REPOSITORY_FILES {
            let folder = place.join(format!("d{}", number / 10));
            fs::create_dir_all(&folder).expect("make it");
            let content = format!("{number} in version {version}\n").repeat(1 + number % 97);
            fs::write(folder.join(format!("file {number}")), content).expect("write it");
        }
        let git = |arguments: &[&str]| {
            let who =
                ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "gc.auto=0"];
            run("git", &[&who, arguments].concat(), &place);
        };
        if version == 0 {
            git(&["init", "-q"]);
        }
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "all"]);
    }
}

fn clone(inputs: &Path, place: &Path) -> Vec<String> {
    let (from, to) = (inputs.join("repository"), place.join("clone"));
    // No user's settings, and all objects copied.
    let nobody = ["GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"];
    let git = ["git", "clone", "-q", "--no-hardlinks", text(&from), text(&to)];
    words(&[&["env", nobody[0], nobody[1]][..], &git].concat())
}

fn make_storm(dir: &Path) {
    let program = compile("storm.c", dir);
    let files = dir.join("files");
    fs::create_dir(&files).expect("make it");
    let [threads, each] = [STORM_THREADS, STORM_FILES].map(|it| it.to_string());
    run(&program, &[text(&files), &threads, &each], dir);
}

fn storm(inputs: &Path, place: &Path) -> Vec<String> {
    let [threads, each] = [STORM_THREADS, STORM_FILES].map(|it| it.to_string());
    let [program, files, log] = [inputs.join("storm"), inputs.join("files"), place.join("log")];
    words(&[text(&program), text(&files), &threads, &each, text(&log)])
}

fn make_sources(dir: &Path) {
    for name in ["first", "second", "third"] {
        let headers = ["stdio", "stdlib", "string", "unistd", "fcntl", "pthread", "errno", "time"];
        let includes: String = headers.iter().map(|it| format!("#include <{it}.h>\n")).collect();
        let main = if name == "first" { "int main(void) { return puts(\"\") < 0; }\n" } else { "" };
        let own = format!("int of_{name}(int it) {{ return it + 1; }}\n");
        fs::write(dir.join(name).with_extension("c"), includes + &own + main).expect("write it");
    }
}

fn gcc(inputs: &Path, place: &Path) -> Vec<String> {
    let sources = ["first.c", "second.c", "third.c"].map(|it| inputs.join(it));
    let (temporary, program) = (format!("TMPDIR={}", text(place)), place.join("program"));
    let mut command = words(&["env", &temporary, "gcc", "-O1", "-o", text(&program)]);
    command.extend(sources.iter().map(|it| text(it).to_owned()));
    command
}
