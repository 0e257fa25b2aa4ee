//! Logs in small, then of real programs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::driver::process;
use crate::support::machine::requirements::{Need, require_all};
use crate::support::oracle::strace::arguments::unescape;
use crate::support::oracle::strace::names::errno_number;
use crate::support::oracle::strace::{Call, End, Log, Relation};
use crate::support::scratch_dir;

#[track_caller]
fn only(line: &str) -> Call {
    let log = Log::parse(line);
    assert!(log.unknown.is_empty(), "not understood: {:?}", log.unknown);
    let mut calls = log.all();
    let call = calls.next().expect("one call").1.clone();
    assert!(calls.next().is_none(), "one call");
    call
}

#[test]
fn call_with_descriptor_path_and_result_is_parsed() {
    let call = only(r#"812 read(3</etc/pass wd>, "ro) = 7\",<", 4096) = 1411 <0.000012>"#);
    assert_eq!((call.name.as_str(), call.fd, call.ret), ("read", Some(3), Some(1411)));
    assert_eq!(call.fd_path.as_deref(), Some(b"/etc/pass wd".as_slice()));
    assert_eq!(call.args_text, r#"3</etc/pass wd>, "ro) = 7\",<", 4096"#);
    assert_eq!((call.path_argument, call.errno, call.unfinished), (None, None, false));
}

#[test]
fn open_has_its_argument_and_its_resulting_path() {
    let call = only(
        r#"812 1700000000.123456 openat(AT_FDCWD</tmp>, "a\377\n\"", O_RDWR|O_CREAT, 0600) = 5</tmp/a\377\n\"\74q\76)> <0.1>"#,
    );
    assert_eq!(call.time.as_deref(), Some("1700000000.123456"));
    assert_eq!((call.fd, call.ret), (None, Some(5)));
    assert_eq!(call.path_argument.as_deref(), Some(b"a\xff\n\"".as_slice()));
    assert_eq!(call.ret_path.as_deref(), Some(b"/tmp/a\xff\n\"<q>)".as_slice()));
    let call = only(r#"812 openat(-100, "\x2f\x78", 0) = 5<\x2f\x78>(deleted)"#);
    assert_eq!(call.path_argument.as_deref(), Some(b"/x".as_slice()));
    assert_eq!(call.ret_path.as_deref(), Some(b"/x (deleted)".as_slice()));
}

#[test]
fn errors_and_odd_results() {
    let call = only(r#"1 openat(AT_FDCWD, "x", O_RDONLY) = -1 ENOENT (No such file or directory)"#);
    assert_eq!((call.ret, call.errno.as_deref()), (Some(-1), Some("ENOENT")));
    let call = only(
        "1 read(0<pipe:[12]>, 0x7ff, 1) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)",
    );
    assert_eq!((call.ret, call.errno.as_deref()), (None, Some("ERESTARTSYS")));
    assert!(!call.unfinished);
    assert_eq!(call.fd_path.as_deref(), Some(b"pipe:[12]".as_slice()));
    let call = only("1 exit_group(0)                     = ?");
    assert!(call.unfinished && call.ret.is_none());
    let call = only("1 fcntl(3, F_GETFL) = 0x8002 (flags O_RDWR|O_LARGEFILE)");
    assert_eq!(call.ret, Some(0x8002));
    assert_eq!(only("1 lseek(3, -1, SEEK_CUR) = 18").ret, Some(18));
    assert_eq!(only("1 umask(077) = 022").ret, Some(0o22));
    assert_eq!(only("1 sendto(4<UNIX-STREAM:[2->3]>, \"x\", 1, 0, NULL, 0) = 1").fd, Some(4));
    let call = only("1 dup2(3</dev/null<char 1:3>>, 2) = 2</dev/null<char 1:3>>");
    assert_eq!(call.ret_path.as_deref(), Some(b"/dev/null".as_slice()));
    assert_eq!(only("1 x(1<<4, {a=[1, 2], b=(3)} /* 2 v) */) = 0").ret, Some(0));
}

#[test]
fn calls_of_threads_are_put_together() {
    let log = Log::parse(
        r#"10 clone3({flags=CLONE_VM|CLONE_THREAD, stack=0x7f}, 88 <unfinished ...>
11 rseq(0x7f, 0x20, 0, 0x53) = 0
10 <... clone3 resumed> => {parent_tid=[11]}, 88) = 11
10 read(3<pipe:[1]>,  <unfinished ...>
11 write(4<pipe:[1]>, "\0ab\1", 4)   = 4
10 <... read resumed>"\0ab\1", 10) = 4
11 pread64(3, "", 1, 0) = 0
11 +++ exited with 3 +++
10 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---
10 restart_syscall(<... resuming interrupted read ...>) = 0
10 read(0,  <unfinished ...>
10 <... read resumed> <unfinished ...>) = ?
10 +++ killed by SIGKILL (core dumped) +++
12 fork( <unfinished ...>
12 <... fork resumed>) = 13
13 write(1, "x", 1 <unfinished ...>
"#,
    );
    assert!(log.unknown.is_empty(), "{:?}", log.unknown);
    let names = |pid: i32| log.calls[&pid].iter().map(|it| it.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names(10), ["clone3", "read", "restart_syscall", "read"]);
    assert_eq!(names(11), ["rseq", "write", "pread64"]);
    let read = &log.calls[&10][1];
    assert_eq!((read.fd, read.ret, read.unfinished), (Some(3), Some(4), false));
    assert_eq!(read.args_text, r#"3<pipe:[1]>,  "\0ab\1", 10"#);
    assert!(log.calls[&10][3].unfinished && log.calls[&13][0].unfinished);
    assert_eq!(log.calls[&13][0].args_text, r#"1, "x", 1"#);
    assert_eq!(
        log.relations,
        [
            Relation::Child { parent: 10, child: 11, thread: true },
            Relation::Child { parent: 12, child: 13, thread: false }
        ]
    );
    assert_eq!(log.ends[&11], End::Exited(3));
    assert_eq!(log.ends[&10], End::Killed("SIGKILL".to_owned()));
    assert_eq!((log.first, log.signals), (Some(10), vec![(10, "SIGCHLD".to_owned())]));
}

#[test]
fn exec_by_another_thread_goes_on_under_the_first_ones_number() {
    let log = Log::parse(
        r#"818 read(3,  <unfinished ...>
819 execve("/bin/true", ["true"], 0x7f /* 35 vars */ <unfinished ...>
818 <... read resumed> <unfinished ...>) = ?
818 +++ superseded by execve in pid 819 +++
818 <... execve resumed>)             = 0
818 close(3)                          = 0
"#,
    );
    assert!(log.unknown.is_empty(), "{:?}", log.unknown);
    assert_eq!(
        log.calls[&818].iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
        ["read", "execve", "close"]
    );
    assert_eq!(log.relations, [Relation::Exec { pid: 818, path: b"/bin/true".to_vec() }]);
    assert_eq!(log.ends[&818], End::Superseded(819));
}

#[test]
fn lines_without_calls_are_reported() {
    let log = Log::parse(
        "5 read(3, \"\", 1) = 0\n5 what is this\n5 <... read resumed>) = 1\n5 x(1) = y\n",
    );
    assert_eq!(log.unknown.len(), 3, "{:?}", log.unknown);
    assert_eq!(log.all().count(), 1);
}

#[test]
fn escapes_and_names() {
    assert_eq!(unescape(r"\0\1x\12\177\x41\t\\\74"), b"\0\x01x\n\x7fA\t\\<");
    assert_eq!(unescape(r"\08\400"), b"\x008\x00");
    let numbers = ["EPERM", "ENOENT", "EAGAIN", "EHWPOISON", "ERESTARTSYS", "EWOULDBLOCK"];
    let expected = [Some(1), Some(2), Some(11), Some(133), Some(512), Some(11)];
    assert_eq!(numbers.map(errno_number), expected);
    assert_eq!(errno_number("ENONSENSE"), None);
}

/// Runs a shell script under strace with these options.
fn traced(dir: &Path, options: &[&str], script: &str) -> Log {
    let log = dir.join("log");
    let mut command = Command::new("strace");
    command.args(options).arg("-o").arg(&log).args(["sh", "-c", script]).current_dir(dir);
    process::run(&mut command, Duration::from_secs(60)).expect("strace ends");
    Log::read(&log).expect("strace wrote a log")
}

#[test]
fn real_logs_are_understood_in_all_forms() {
    if !require_all(&[Need::Strace]) {
        return;
    }
    let script = r#"
        mkdir 'we ird"<q>,)é'; echo 123456789 > 'we ird"<q>,)é/f) = 3'
        cat 'we ird"<q>,)é/f) = 3' missing | tr 1 2 | wc -c
        (exec 5<log; exec 6<&5; rm -f gone; exec 7>gone; rm gone; echo x >&7)
        sh -c 'kill -9 $$'; sleep 0.02 & wait"#;
    for options in [
        ["-f", "-y"].as_slice(),
        &["-f"],
        &["-f", "-yy", "-T", "-ttt"],
        &["-f", "-y", "-xx", "-tt"],
    ] {
        let dir = scratch_dir("strace");
        let log = traced(dir.path(), options, script);
        assert!(log.unknown.is_empty(), "{options:?}: {:?}", log.unknown);
        let path = dir.path().join("we ird\"<q>,)é/f) = 3").into_os_string().into_encoded_bytes();
        let annotated = options.iter().any(|it| it.starts_with("-y"));
        let count = |name: &str| {
            let calls = log.all().filter(|(_, call)| call.name == name && call.ret == Some(10));
            calls.filter(|(_, call)| !annotated || call.fd_path.as_deref() == Some(&path)).count()
        };
        assert!(count("write") >= 1 && count("read") >= 1, "{options:?}: {path:?}");
        let opened = log.all().filter(|(_, it)| {
            it.name == "openat"
                && it.path_argument.as_deref().is_some_and(|it| it.ends_with(b"/f) = 3"))
        });
        let opened: Vec<_> = opened.collect();
        assert_eq!(opened.len(), 2, "{options:?}");
        let expected = annotated.then_some(path.as_slice());
        assert!(opened.iter().all(|(_, it)| it.ret_path.as_deref() == expected), "{opened:?}");
        let missing = log
            .all()
            .find(|(_, it)| it.path_argument.as_deref() == Some(b"missing"))
            .expect("cat asks for it");
        assert_eq!(missing.1.errno.as_deref(), Some("ENOENT"));
        let unlinked = log.all().any(|(_, it)| {
            it.fd_path.as_deref().is_some_and(|it| it.ends_with(b"/gone (deleted)"))
        });
        assert_eq!(unlinked, annotated, "{options:?}");
        assert!(log.ends.values().any(|it| *it == End::Killed("SIGKILL".to_owned())));
        let threads: BTreeSet<i32> = log.calls.keys().copied().collect();
        let children: BTreeSet<i32> = log
            .relations
            .iter()
            .filter_map(|it| match it {
                Relation::Child { child, .. } => Some(*child),
                Relation::Exec { .. } => None,
            })
            .collect();
        let grown: BTreeSet<i32> =
            threads.iter().copied().filter(|it| Some(*it) != log.first).collect();
        assert_eq!(grown, children, "{options:?}: every other thread has a parent");
        assert_eq!(log.ends.keys().copied().collect::<BTreeSet<_>>(), threads);
    }
}
