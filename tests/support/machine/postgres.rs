//! A PostgreSQL server of the test's own: in a temporary directory, as an unprivileged user,
//! reachable by a socket only.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown};
use tempfile::TempDir;

use crate::support::driver::process::{self, Finished};
use crate::support::driver::recording::{TIMEOUT, wait_until};

/// Users that may run it; it refuses root. The package makes the first, every machine has the
/// second.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// Nothing is done but what it is asked for: no work of its own in the background, no limit of
/// time.
const SETTINGS: [&str; 9] = [
    "listen_addresses=",
    "autovacuum=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "checkpoint_timeout=1h",
    "max_wal_size=4GB",
    "wal_writer_delay=10ms",
    "bgwriter_lru_maxpages=0",
    "shared_buffers=64MB",
];

/// The directory of the server's programs, which Debian keeps out of the search path.
pub(crate) fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = versions.map(|it| it.path().join("bin"));
    let mut all: Vec<PathBuf> =
        debian.chain(["/usr/bin".into(), "/usr/local/bin".into()]).collect();
    all.retain(|it| {
        ["initdb", "postgres", "pgbench", "psql"].iter().all(|name| it.join(name).exists())
    });
    all.into_iter().next()
}

/// A server. It ends when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    programs: PathBuf,
    // In the directory for all: the user must be able to reach it.
    dir: TempDir,
    user: User,
    child: Option<Child>,
}

impl Server {
    /// Makes a cluster; it does not run yet.
    #[track_caller]
    pub(crate) fn create() -> Self {
        let programs = programs().expect("was asked for");
        let user = USERS.iter().find_map(|it| User::from_name(it).ok().flatten());
        let user = user.expect("every machine has the second one");
        let dir = tempfile::Builder::new().prefix("accounts").tempdir().expect("a directory");
        chown(dir.path(), Some(user.uid), Some(user.gid)).expect("give it to the user");
        let server = Self { programs, dir, user, child: None };
        let data = server.data();
        let data = data.to_str().expect("text");
        server.run("initdb", &["-D", data, "-A", "trust", "-U", "test", "-N", "--locale=C"]);
        server
    }

    /// Directory of its files.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// One of its programs, as its user.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.uid(self.user.uid.as_raw()).gid(self.user.gid.as_raw());
        command.current_dir(self.dir.path()).env("HOME", self.dir.path());
        for key in ["LD_LIBRARY_PATH", "PGDATA", "PGPORT", "PGUSER", "PGDATABASE"] {
            command.env_remove(key);
        }
        command.env("PGHOST", self.dir.path()).env("PGUSER", "test").env("PGDATABASE", "postgres");
        command
    }

    /// A command that runs these lines of shell as its user, with its programs, `$DATA` and
    /// `$PLACE`, which is the directory around.
    pub(crate) fn shell(&self, lines: &str) -> Vec<String> {
        let dir = self.dir.path().display();
        let ids = [("--reuid", self.user.uid.as_raw()), ("--regid", self.user.gid.as_raw())];
        let ids = ids.map(|(option, id)| format!("{option}={id}"));
        let (programs, data) = (self.programs.display(), self.data());
        let path = std::env::var("PATH").unwrap_or_default();
        let variables = [
            format!("PATH={programs}:{path}"),
            format!("HOME={dir}"),
            format!("PLACE={dir}"),
            format!("DATA={}", data.display()),
            format!("PGHOST={dir}"),
            "PGUSER=test".to_owned(),
            "PGDATABASE=postgres".to_owned(),
        ];
        let words = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let setpriv = [&words(&["setpriv", "--clear-groups"])[..], &ids].concat();
        let env = [&words(&["env"])[..], &variables].concat();
        [setpriv, env, words(&["sh", "-ec", lines])].concat()
    }

    /// Runs one of its programs to its end.
    #[track_caller]
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Finished {
        let mut command = self.command(program);
        process::run(command.args(arguments), TIMEOUT).expect("it ends").success()
    }

    /// Returns the rows of a query, without decoration: fields are separated by `|`.
    #[track_caller]
    pub(crate) fn query(&self, query: &str) -> String {
        self.run("psql", &["-X", "-A", "-t", "-c", query]).stdout().trim().to_owned()
    }

    /// Starts it; the number of its first process.
    #[track_caller]
    pub(crate) fn start(&mut self) -> u32 {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.dir.path());
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        let log = fs::File::create(self.dir.path().join("log")).expect("make it");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let pid = self.child.insert(child.expect("it starts")).id();
        wait_until("the server is ready", || {
            let mut ask = self.command("psql");
            let asked = process::run(ask.args(["-X", "-c", "SELECT 1"]), TIMEOUT);
            asked.is_ok_and(|it| it.status.success())
        });
        pid
    }

    /// Lets it write everything and end.
    pub(crate) fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let pid = Pid::from_raw(child.id().try_into().expect("a pid"));
        kill(pid, Signal::SIGINT).expect("it runs");
        if process::wait(&mut child, TIMEOUT).is_err() {
            child.kill().and_then(|()| child.wait().map(drop)).expect("it is ours");
        }
    }

    /// A file of the server, by its name in the data directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        let data = fs::canonicalize(self.data()).expect("it is there");
        data.join(Path::new(name))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
