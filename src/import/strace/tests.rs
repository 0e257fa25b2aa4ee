use super::*;
use proptest::prelude::*;

fn parsed(text: &str) -> (Vec<ImportedEvent>, ImportReport) {
    let mut parser = Strace::new(text.as_bytes());
    let (mut events, mut notes) = (Vec::new(), ImportReport::default());
    for line in text.lines() {
        notes.read += 1;
        if !parser.line(line.as_bytes(), &mut events, &mut notes) {
            let number = notes.read;
            notes.not_understood(number, line.as_bytes());
        }
    }
    parser.finish(&mut events, &mut notes);
    events.sort_by_key(|event| event.time);
    (events, notes)
}

/// Describes events by task and kind.
fn words(events: &[ImportedEvent]) -> Vec<String> {
    let word = |event: &ImportedEvent| {
        let ImportedTask { pid, tid } = event.task;
        let what = match &event.what {
            ImportedKind::Enter(call, _) => format!("{}(", call.call().name),
            ImportedKind::Exit(call, ret, _) => format!("{})={ret}", call.call().name),
            ImportedKind::Born(child, flags) => {
                format!("born {}/{} {flags:x}", child.pid.0, child.tid.0)
            }
            ImportedKind::Named(name, _) => format!("named {}", name.escape_ascii()),
            ImportedKind::Ended => "ended".into(),
            ImportedKind::Open(fd, link, _) => format!("open {}={}", fd.0, link.escape_ascii()),
            ImportedKind::Directory(path) => format!("in {}", path.escape_ascii()),
            ImportedKind::Block(_) | ImportedKind::Lost(_) | ImportedKind::Disk(..) => {
                "of another tool".into()
            }
        };
        format!("{}/{} {what}", pid.0, tid.0)
    };
    events.iter().map(word).collect()
}

#[test]
fn a_call_in_two_pieces_begins_where_it_began() {
    let (events, notes) = parsed(
        "7 100000001.000000 read(0</dev/tty>,  <unfinished ...>\n\
         8 100000001.000005 close(3</x>) = 0 <0.000002>\n\
         7 100000001.000009 <... read resumed>\"a\", 10) = 1 <0.000009>\n",
    );
    assert_eq!(
        words(&events),
        [
            "7/7 open 0=/dev/tty",
            "7/7 read(",
            "8/8 open 3=/x",
            "8/8 close(",
            "8/8 close)=0",
            "7/7 read)=1"
        ]
    );
    let times: Vec<u64> = events.iter().map(|event| event.time - 100_000_001_000_000_000).collect();
    assert_eq!(times, [0, 0, 5000, 5000, 7000, 9000]);
    assert_eq!(notes.messages(""), Vec::<String>::new());
}

#[test]
fn children_have_the_parent_that_created_them() {
    let (events, _) = parsed(
        "7 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>\n\
         8 close(4) = 0\n\
         7 <... clone resumed>, child_tidptr=0x7f) = 8\n\
         7 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD, exit_signal=0}, 88) = 9\n\
         9 +++ exited with 0 +++\n\
         8 +++ killed by SIGKILL +++\n",
    );
    assert_eq!(
        words(&events),
        [
            "7/7 clone(",
            "7/7 born 8/8 0",
            "8/8 close(",
            "8/8 close)=0",
            "7/7 clone)=8",
            "7/7 clone3(",
            "7/7 born 7/9 10500",
            "7/7 clone3)=9",
            "7/9 ended",
            "8/8 ended"
        ]
    );
}

/// Fails if a thread is assigned to the first possible parent.
#[test]
fn ambiguous_child_waits_until_its_parent_is_known() {
    let (events, _) = parsed(
        "7 fork( <unfinished ...>\n\
         8 fork( <unfinished ...>\n\
         9 close(4) = 0\n\
         8 <... fork resumed>) = 9\n\
         7 <... fork resumed>) = 10\n",
    );
    let words = words(&events);
    assert!(
        words.contains(&"8/8 born 9/9 0".to_owned())
            && words.contains(&"7/7 born 10/10 0".to_owned()),
        "{words:?}"
    );
    let place = |text: &str| words.iter().position(|word| word == text);
    assert!(place("8/8 born 9/9 0") < place("9/9 close("));
}

#[test]
fn lines_that_strace_interrupts_itself_are_joined() {
    let (events, notes) = parsed(
        "set_tid_address(0x7f) = 77\n\
         newfstatat(AT_FDCWD</w>, \"/x\", strace: Process 78 attached\n\
         {st_mode=S_IFREG|0755, ...}, 0) = 0 <0.000034>\n\
         --- SIGCHLD {si_signo=SIGCHLD} ---\n\
         execve(\"/usr/bin/a_long_name_of_a_program\", [\"x\"...], 0x7f /* 3 vars */) = 0\n\
         open(\"/cut\"..., O_RDONLY) = -1 ENOENT (No such file or directory)\n\
         exit_group(0) = ?\n\
         what is this\n",
    );
    assert_eq!(
        words(&events),
        [
            "77/77 in /w",
            "77/77 newfstatat(",
            "77/77 newfstatat)=0",
            "77/77 execve(",
            "77/77 named a_long_name_of_",
            "77/77 execve)=0",
            "77/77 open(",
            "77/77 open)=-2"
        ]
    );
    assert_eq!(notes.unparsed(), 1);
    let messages = notes.messages("lines").join("\n");
    assert!(
        messages.contains("1 of 8 lines not understood: first at 8: what is this"),
        "{messages}"
    );
    assert!(messages.contains("1 truncated paths"), "{messages}");
    assert!(messages.contains("set_tid_address 1"), "{messages}");
}

/// Fails if a directory is taken for a file because another call came between open and `fstat`.
#[test]
fn resulting_path_follows_the_open() {
    let stat = |events: &[ImportedEvent]| {
        let reads = events.iter().find_map(|event| match &event.what {
            ImportedKind::Exit(_, 3, reads) => reads.last().cloned(),
            _ => None,
        });
        reads.and_then(|byte| byte.stat).map(|byte| (byte.is_directory(), byte.size))
    };
    let (events, _) = parsed(
        "7 openat(AT_FDCWD</>, \"/d\", O_RDONLY) = 3</d>\n\
         7 fstat(3</d>,  <unfinished ...>\n\
         8 close(4) = 0\n\
         7 <... fstat resumed>{st_mode=S_IFDIR|0755, st_size=4096, ...}) = 0\n",
    );
    assert_eq!(stat(&events), Some((true, 4096)));
    let (events, _) =
        parsed("7 openat(AT_FDCWD</>, \"/d\", O_RDONLY) = 3</d>\n7 read(3</d>, \"\", 1) = 0\n");
    assert_eq!(stat(&events), None);
    assert_eq!(words(&events).len(), 5);
}

/// `-qq` omits the lines on the ends of tasks.
#[test]
fn a_number_that_is_used_again_is_another_process() {
    let (events, notes) = parsed(concat!(
        "7 100000001.000000 fork() = 8 <0.000010>\n",
        "8 100000001.000020 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3 <0.000001>\n",
        "8 100000001.000030 exit_group(0) = ?\n",
        // By its own end, before the call that started it returns.
        "7 100000001.000040 fork( <unfinished ...>\n",
        "8 100000001.000050 read(3, \"\", 1) = -1 EBADF (Bad file descriptor) <0.000001>\n",
        "7 100000001.000060 <... fork resumed>) = 8 <0.000020>\n",
        // By a second birth: it was killed.
        "7 100000001.000070 fork() = 8 <0.000010>\n",
        "8 100000001.000090 close(3) = -1 EBADF (Bad file descriptor) <0.000001>\n",
    ));
    let of_tasks = |text: &String| text.contains("born") || text.contains("ended");
    let words: Vec<String> = words(&events).into_iter().filter(of_tasks).collect();
    let what = |text: &str| words.iter().filter(|word| word.contains(text)).count();
    assert_eq!((what("born 8/8"), what("ended")), (3, 2), "{words:?}");
    assert_eq!(
        notes.messages("lines"),
        ["2 tasks that have ended before a task of the same number began"]
    );
}

#[test]
fn call_has_the_duration_of_strace() {
    let (events, notes) = parsed(concat!(
        "7 1700000000.000000 read(0,  <unfinished ...>\n",
        "8 1734560000.000000 read(0,  <unfinished ...>\n",
        "7 1734560000.002500 <... read resumed>\"a\", 1) = 1 <0.002500>\n",
        "7 1734560000.003000 close(3) = 0 <0.000001>\n",
    ));
    let times: Vec<u64> = events
        .iter()
        .filter(|event| event.task.tid.0 == 7 && !matches!(event.what, ImportedKind::Directory(_)))
        .map(|event| event.time - 1_700_000_000_000_000_000)
        .collect();
    assert_eq!(times, [0, 2_500_000, 3_000_000, 3_001_000]);
    let messages = notes.messages("lines");
    assert!(
        messages.iter().any(|line| line.starts_with("1 times at which the clock was set")),
        "{messages:?}"
    );
}

const LINES: [&str; 8] = [
    "7 100000001.000000 read(0</dev/tty>,  <unfinished ...>",
    "7 100000001.000009 <... read resumed>\"a\", 10) = 1 <0.000009>",
    "[pid 8] openat(AT_FDCWD</tmp>, \"a\\n\\x00\", O_WRONLY|O_CREAT, 0644) = 3</tmp/a<char 1:3>> <0.000056>",
    "8 clone3({flags=CLONE_VM|CLONE_THREAD, exit_signal=0}, 88) = 9",
    "9 preadv2(3, [{iov_base=\"\"..., iov_len=7}], 1, -1, RWF_APPEND) = -1 EAGAIN (x)",
    "9 sendfile(1</o>, 3</i>, [10] => [30], 20) = 20 <9999999999999999999.1>",
    "8 +++ superseded by execve in pid 9 +++",
    "9 pipe2([3<pipe:[7]>, 4<pipe:[7]>], O_CLOEXEC) = 0 strace: Process 1 attached",
];

proptest! {
    /// Fails if any bytes cause a panic.
    #[test]
    fn any_bytes_are_read(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..20)) {
        let text: Vec<String> = lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        parsed(&text.join("\n"));
    }

    #[test]
    fn lines_may_be_damaged_anywhere(
        edits in prop::collection::vec((0..LINES.len(), 0..120_usize, 0..8_usize, "[\\]\\[<>(){},=\"\\\\ 0-9a-z|-]{0,4}"), 0..40)
    ) {
        let damaged = |(line, at, cut, with): &(usize, usize, usize, String)| {
            let line = LINES[*line];
            let at = (*at).min(line.len());
            let end = (at + cut).min(line.len());
            format!("{}{with}{}", &line[..at], &line[end..])
        };
        parsed(&edits.iter().map(damaged).collect::<Vec<_>>().join("\n"));
    }
}
