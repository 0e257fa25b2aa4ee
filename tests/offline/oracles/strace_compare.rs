//! The comparison finds what differs, and only that.

use crate::support::driver::json::{JsonLine, JsonOperation, operations, parse};
use crate::support::oracle::strace::Log;
use crate::support::oracle::strace::compare::{compare, compare_counted};

const NAMES: &[&str] = &["openat", "read", "close", "dup2", "sendfile64"];

const LOG: &str = r#"7 execve("/bin/x", ["x"], 0x7f /* 3 vars */) = 0
7 openat(AT_FDCWD</>, "a", O_RDONLY) = 3</a\377>
7 read(3</a\377>,  <unfinished ...>
8 close(9) = -1 EBADF (Bad file descriptor)
7 <... read resumed>"x", 4096) = 1
7 dup2(3</a\377>, 5) = 5</a\377>
8 sendfile(4</b>, 3</a>, NULL, 10) = 10
8 read(0, 0x7f, 1) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)
8 brk(NULL) = 0x1000
8 openat(AT_FDCWD, "no", O_RDONLY) = -1 ENOENT (No such file or directory)
8 read(0,  <unfinished ...>
7 exit_group(0) = ?
8 +++ killed by SIGKILL +++
7 +++ exited with 0 +++
"#;

/// Not in order of time, as operations are written when they end.
const OURS: &str = r#"{"kind":"syscall","name":"close","pid":7,"tid":7,"comm":"strace","cpu":0,"start_ns":-1,"duration_ns":1,"fd":8,"path":null,"path_source":null,"offset":null,"bytes_requested":null,"result":0,"errno":null}
{"kind":"syscall","name":"read","pid":7,"tid":7,"comm":"x","cpu":0,"start_ns":12,"duration_ns":9,"fd":3,"path":"/a\\xff","path_bytes":"2f61ff","path_source":"fd-link","offset":0,"bytes_requested":4096,"result":1,"errno":null}
{"kind":"syscall","name":"openat","pid":7,"tid":7,"comm":"x","cpu":0,"start_ns":10,"duration_ns":1,"fd":3,"path":"/a\\xff","path_bytes":"2f61ff","path_source":"fd-link","offset":null,"bytes_requested":null,"result":3,"errno":null}
{"kind":"syscall","name":"close","pid":7,"tid":8,"start_ns":13,"fd":9,"result":-9,"errno":"EBADF"}
{"kind":"syscall","name":"dup2","pid":7,"tid":7,"start_ns":22,"fd":3,"result":5,"errno":null,"fd2":5,"path2":null}
{"kind":"block","disk":"loop0","dev":"7:0","op":"write","sector":2048,"bytes":4096,"queued_ns":300000,"inserted_ns":null,"issued_ns":-5,"completed_ns":383000,"pid":12,"comm":"fio","error":null,"tid":13,"rwbs":"WS","merges":2,"requeues":1,"ending":"completed","flush":"none","diskstats":"write","bytes_done":4096}
{"kind":"syscall","name":"sendfile64","pid":7,"tid":8,"start_ns":23,"fd":3,"result":10,"errno":null,"fd2":4}
{"kind":"syscall","name":"read","pid":7,"tid":8,"start_ns":24,"fd":0,"result":-512,"errno":"ERESTARTSYS"}
{"kind":"syscall","name":"openat","pid":7,"tid":8,"start_ns":26,"fd":null,"path":"no","path_source":"argument","result":-2,"errno":"ENOENT","dirfd":"AT_FDCWD"}
{"kind":"syscall","name":"read","pid":9,"tid":9,"start_ns":26,"fd":1,"result":4}
{"kind":"anomaly","what":"lost","time_ns":400000,"cpu":1,"pid":-1,"tid":4712,"count":17,"detail":"the ring was full"}
"#;

fn ours() -> Vec<JsonOperation> {
    operations(&parse(OURS).expect("valid lines"))
}

#[track_caller]
fn assert_differs(log: &str, change: impl Fn(&mut Vec<JsonOperation>), said: &str) {
    let mut ours = ours();
    change(&mut ours);
    let differences = compare(&Log::parse(log), &ours, NAMES);
    let [difference] = differences.as_slice() else { panic!("one difference: {differences:#?}") };
    assert!(difference.contains(said), "`{said}` is not in {difference}");
}

#[test]
fn equal_logs_have_no_differences() {
    let found = compare_counted(&Log::parse(LOG), &ours(), NAMES);
    assert_eq!(found.differences, Vec::<String>::new());
    assert_eq!((found.calls, found.paths, found.given, found.held), (7, 1, 1, 1));
    assert_eq!((found.opens.opens, found.opens.right), (2, 2));
    let mut with_last = ours();
    let last = r#"{"kind":"syscall","name":"read","pid":7,"tid":8,"start_ns":27,"fd":0}"#;
    with_last.extend(operations(&parse(last).expect("a valid line")));
    assert_eq!(compare(&Log::parse(LOG), &with_last, NAMES), Vec::<String>::new());
}

#[test]
fn lines_of_all_kinds_are_read() {
    let lines = parse(OURS).expect("valid lines");
    let blocks: Vec<_> = lines.iter().filter(|it| matches!(it, JsonLine::Block(_))).collect();
    assert_eq!((lines.len(), blocks.len(), ours().len()), (11, 1, 9));
    let error = parse("{}\n").expect_err("no kind");
    assert!(error.starts_with("line 1"), "{error}");
}

#[test]
fn every_difference_is_found() {
    assert_differs(LOG, |it| it[1].fd = Some(4), "descriptor Some(3), ours Some(4)");
    assert_differs(LOG, |it| it[4].fd2 = Some(3), "second descriptor Some(5), ours Some(3)");
    assert_differs(LOG, |it| it[5].fd = Some(4), "descriptor Some(3), ours Some(4)");
    assert_differs(LOG, |it| it[5].fd2 = None, "second descriptor Some(4), ours None");
    assert_differs(LOG, |it| it[7].fd = Some(3), "descriptor None, ours Some(3)");
    assert_differs(LOG, |it| it[1].result = Some(2), "result Some(1), ours Some(2)");
    assert_differs(LOG, |it| it[1].result = None, "result Some(1), ours None");
    assert_differs(LOG, |it| it[3].result = Some(-1), "result Some(-9), ours Some(-1)");
    assert_differs(LOG, |it| it[6].errno = None, "error Some(\"ERESTARTSYS\"), ours None");
    assert_differs(LOG, |it| it[2].path_bytes = None, "path \"/a\u{fffd}\" given as \"a\", ours");
    assert_differs(LOG, |it| it[1].path_bytes = None, "works on \"/a\u{fffd}\", ours");
    assert_differs(LOG, |it| it[2].name = "close".to_owned(), "strace has `openat(");
    assert_differs(LOG, |it| it.truncate(7), "tid 8: 1 calls missing from: `openat");
    assert_differs(LOG, |it| drop(it.remove(5)), "strace has `sendfile(");
    assert_differs(
        LOG,
        |it| it.push(JsonOperation { start_ns: 99, ..it[3].clone() }),
        "strace does not have",
    );
    assert_differs(&format!("{LOG}nonsense\n"), |_| (), "a line of strace is not understood");
    assert_differs("7 brk(NULL) = 0\n", Vec::clear, "no call was compared");
}

#[test]
fn first_thread_may_have_begun_before_strace_looked() {
    let log = "7 execve(\"x\", [], []) = 0\n7 read(3, \"\", 1) = 0\n7 read(4,  <unfinished ...>\n7 +++ killed by SIGKILL +++\n";
    let read = |start_ns, fd, result| JsonOperation {
        name: "read".to_owned(),
        tid: 7,
        start_ns,
        fd: Some(fd),
        result,
        ..JsonOperation::default()
    };
    let before = read(1, 9, Some(1));
    let (first, last) = (read(2, 3, Some(0)), read(3, 4, None));
    for (ours, agree) in [
        (vec![before.clone(), first.clone(), last.clone()], true),
        (vec![before.clone(), first.clone()], true),
        (vec![before.clone(), before.clone(), first.clone(), last.clone()], true),
        (vec![first.clone()], true),
        (vec![before, last], false),
        (vec![first, read(4, 9, Some(1))], false),
    ] {
        let differences = compare(&Log::parse(log), &ours, NAMES);
        assert_eq!(differences.is_empty(), agree, "{ours:#?}: {differences:#?}");
    }
}
