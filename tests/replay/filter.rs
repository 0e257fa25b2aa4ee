//! A part of what was captured is done again, with what it depends on and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use super::fixture::NAMED;
use crate::support::driver::recording::{can_record, iotrace, record};
use crate::support::machine::requirements::{Need, require};
use crate::support::machine::turns::{alone, beside_others};
use crate::support::{scratch_dir, text};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

#[track_caller]
fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("{key}: {report:#}"))
}

/// A log, and the plan of all of it.
struct Captured {
    dir: PathBuf,
    log: PathBuf,
    whole: Value,
}

impl Captured {
    fn new(dir: &Path, log: PathBuf) -> Self {
        let whole = json(&iotrace(&["replay", "plan", text(&log), "--json"]).stdout());
        assert_eq!((&whole["needed"], &whole["wanted_from_ns"]), (&0.into(), &Value::Null));
        Self { dir: dir.to_owned(), log, whole }
    }

    /// The plan of a part. What is in it is done again with the same results, and whatever is
    /// opened in the capture is opened in it.
    #[track_caller]
    fn part(&self, options: &[&str]) -> Value {
        let (plan, root) = (self.dir.join("part.ioplan"), self.dir.join("root"));
        let _ = fs::remove_file(&plan);
        let first = ["replay", "plan", text(&self.log), "-o", text(&plan), "--json"];
        let report = json(&iotrace(&[&first, options].concat()).stdout());
        assert!(number(&report, "given") <= number(&self.whole, "given"), "{options:?}");
        assert!(number(&report, "descriptors") <= number(&self.whole, "descriptors"));
        iotrace(&["replay", "init", text(&plan), "--root", text(&root)]).success();
        let run = ["replay", "run", text(&plan), "--root", text(&root), "--speed", "max", "--json"];
        let again = json(&iotrace(&run).stdout());
        assert_eq!(again["mismatches"], 0, "{options:?}: {:#}", again["first_mismatches"]);
        assert_eq!(again["operations"], report["done"], "{options:?}");
        assert_eq!(again["is_whole"], true);
        report
    }

    /// Number of operations in the plan that are wanted.
    #[track_caller]
    fn wanted(&self, options: &[&str]) -> u64 {
        let report = self.part(options);
        number(&report, "done") - number(&report, "needed")
    }

    /// Number of such calls in the plan of all operations.
    fn count(&self, calls: &[&str]) -> u64 {
        let rows = self.whole["done_calls"].as_array().expect("a list");
        let of = rows.iter().filter(|it| calls.iter().any(|call| it["call"] == *call));
        of.map(|it| number(it, "count")).sum()
    }
}

const READS: [&str; 4] = ["read", "pread64", "readv", "preadv"];
const WRITES: [&str; 4] = ["write", "pwrite64", "writev", "pwritev"];
const TRANSFERS: [&str; 2] = ["sendfile64", "copy_file_range"];

/// Programs that make, write, rename and remove files, and make some of the same names again: each
/// filter has what an unfiltered plan has of what it asks for, and parts that make up the whole
/// have all of it.
#[test]
fn parts_of_programs_are_replayed() {
    let needs = [Need::Uprobes, Need::Program("sqlite3"), Need::Program("git")];
    if !can_record(&needs) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay_filter");
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let line = format!(
        "cd {} && sqlite3 sql.db 'PRAGMA journal_mode=DELETE; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); WITH RECURSIVE c(x) AS \
         (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<700) INSERT INTO t SELECT x, hex(randomblob(100)) FROM c; UPDATE t SET b=1 WHERE \
         a%3=0; DELETE FROM t WHERE a%7=0; VACUUM;'; for i in 1 2 3 4 5 6 7; do seq $i 1009 > new; [ -e old ] && rm old; mv new old; \
         mkdir d$i; cp old d$i/f; mv d$i e; cat e/f >> all; rm -r e; done; git init -q g && cd g && echo one > f && git add f && git -c \
         user.name=n -c user.email=e commit -qm m && git mv f h && git -c user.name=n -c user.email=e commit -qm o && git gc -q",
        text(&place)
    );
    let (finished, recording) = record(&dir.path().join("trace"), &NAMED, &["sh", "-c", &line]);
    finished.success();
    recording.assert_whole();
    let captured = Captured::new(dir.path(), dir.path().join("trace/traces.iocap"));
    let all = number(&captured.whole, "done");
    assert!(all > 3000, "{:#}", captured.whole);

    assert_eq!(captured.wanted(&["-e", "openat"]), captured.count(&["openat"]));
    assert_eq!(captured.wanted(&["-e", "rename,unlink,unlinkat"]), {
        captured.count(&["rename", "unlink", "unlinkat"])
    });
    assert_eq!(captured.wanted(&["-e", "lseek"]), captured.count(&["lseek"]));
    let transfers = captured.count(&TRANSFERS);
    let [reads, writes] = [&READS, &WRITES].map(|it| captured.count(it));
    assert_eq!(captured.wanted(&["--io", "r"]), reads + transfers);
    assert_eq!(captured.wanted(&["--io", "w"]), writes + transfers);

    let sizes = [["--min-size", "4K"], ["--max-size", "4095"]].map(|it| captured.wanted(&it));
    assert!(sizes[0] > 0 && sizes[1] > 0, "{sizes:?}");
    assert_eq!(sizes[0] + sizes[1], reads + writes + transfers);

    let comms = ["sqlite3", "git*", "{sh,seq,rm,mv,mkdir,cp,cat}"];
    let parts = comms.map(|it| captured.wanted(&["--comm", it]));
    assert!(parts.iter().all(|it| *it > 100), "{parts:?}");
    assert_eq!(parts.iter().sum::<u64>(), all, "{parts:?}");

    let of_db = captured.wanted(&["-F", "sql.db*"]);
    let of_journal = captured.wanted(&["-F", "*-journal", "--io", "w"]);
    assert!(of_db > of_journal && of_journal > 0, "{of_db} {of_journal}");

    let summary = json(&iotrace(&["summary", text(&captured.log), "--json"]).stdout());
    let rows = summary["processes"].as_array().expect("a list");
    let sqlite = rows.iter().find(|it| it["comm"] == "sqlite3").expect("it has run");
    assert_eq!(captured.wanted(&["-p", &sqlite["pid"].to_string()]), parts[0]);

    windows(&captured, all);
}

/// Windows that follow each other have all that there is, and one that begins late tells where it
/// does.
#[track_caller]
fn windows(captured: &Captured, all: u64) {
    // A third of the calls is in each: times of the whole may be those of one slow call.
    let lines = iotrace(&["script", "--json", text(&captured.log)]).stdout();
    let starts = lines.lines().map(json).filter(|line| line["kind"] == "syscall");
    let mut starts: Vec<u64> = starts.filter_map(|line| line["start_ns"].as_u64()).collect();
    starts.sort_unstable();
    let [first, second] = [starts.len() / 3, starts.len() * 2 / 3].map(|at| starts[at]);
    let [one, two] = [first, second].map(|time| format!("{time}ns"));
    let early = captured.wanted(&["--until", &one]);
    let middle = captured.part(&["--from", &one, "--until", &two]);
    let late = captured.wanted(&["--from", &two]);
    let in_middle = number(&middle, "done") - number(&middle, "needed");
    assert_eq!(early + in_middle + late, all);
    assert!(early > 0 && in_middle > 0 && late > 0);
    let (from, span) = (number(&middle, "wanted_from_ns"), number(&middle, "span_ns"));
    assert!(from > 0 && from < span && number(&middle, "busy_ns") < span);
    // Nothing is in it that ended when all was done that is wanted.
    assert!(span <= second, "{middle:#}");
}

/// Fails if a part of a program is planned as if all of its files were open from the beginning.
#[test]
fn files_opened_in_turn_take_few_descriptors() {
    if !require(Need::Root) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("replay_filter");
    let line = |file: usize| {
        let at = |step: usize| format!("7 1700000000.{:06}", file * 100 + step * 10);
        [
            format!(
                r#"{} openat(AT_FDCWD, "/d/{file}", O_WRONLY|O_CREAT, 0644) = 3</d/{file}> <0.000001>"#,
                at(0)
            ),
            format!(r#"{} write(3</d/{file}>, ""..., 23) = 23 <0.000001>"#, at(1)),
            format!("{} close(3</d/{file}>) = 0 <0.000001>", at(2)),
        ]
        .join("\n")
    };
    let lines: Vec<String> = (0..2003).map(line).collect();
    let [strace, log] = ["strace", "iocap"].map(|it| dir.path().join("made").with_extension(it));
    fs::write(&strace, lines.join("\n") + "\n").expect("space");
    iotrace(&["import", text(&strace), "-o", text(&log)]).success();
    let captured = Captured::new(dir.path(), log);
    let part = captured.part(&["--io", "w"]);
    assert_eq!((number(&part, "descriptors"), number(&part, "given")), (1, 0));
    assert_eq!((number(&part, "done"), number(&part, "needed")), (3 * 2003 - 1, 2 * 2003 - 1));
}
