use clap::Command;

use super::*;
use crate::cli::invocation::{self, Unparsed};

/// Words of a line; `''` is an empty one.
fn words(line: &str) -> Vec<OsString> {
    let words = line.split(' ').filter(|word| !word.is_empty());
    let words = words.map(|word| OsString::from(word.trim_matches('\'')));
    std::iter::once("iotrace-perf".into()).chain(words).collect()
}

/// Returns the text of a line's error, and the command whose help is named.
fn error(line: &str) -> (String, String) {
    match invocation::parse(&words(line)) {
        Err(Unparsed::Usage(UsageError { text, after: After::See(command) })) => (text, command),
        Err(Unparsed::Usage(UsageError { text, after: After::Help(help) })) => (text, help),
        other => panic!("{line}: {other:?}"),
    }
}

/// Command lines and the texts of their errors.
const TEXTS: &[(&str, &str)] = &[
    ("--failed ls", "--failed is an option of reports: iotrace-perf summary --failed -- PROGRAM"),
    (
        "-g ls",
        "there is no option -g here; call chains with the program's functions: --stacks user",
    ),
    ("-A ls", "there is no option -A here; the whole machine: -a"),
    (
        "-k ls",
        "there is no option -k here; call chains with the kernel's functions: --stacks kernel",
    ),
    ("-u ls", "there is no option -u here; the user who runs the program: --as-user USER"),
    (
        "-F x ls",
        "there is no option -F here; -F GLOB is a filter of reports: iotrace-perf files LOG -F GLOB",
    ),
    (
        "-i ls",
        "there is no option -i here; operations on some files: -F GLOB, of reports and script",
    ),
    ("script --csv", "there is no option --csv in script; comma-separated values: --format csv"),
    (
        "script --sort time",
        "there is no option --sort in script; the slowest operations first: iotrace-perf slow LOG",
    ),
    (
        "live --sort x ls",
        "there is no option --sort in live; the slowest operations first: iotrace-perf slow LOG",
    ),
    (
        "-c ls",
        "there is no option -c here; counts and times by call: iotrace-perf summary -- PROGRAM",
    ),
    ("summary --rws 3", "there is no option --rws in summary; did you mean --rows?"),
    ("summary -K", "-K is an option of stacks: iotrace-perf stacks -K"),
    ("info --failed", "--failed is an option of reports: iotrace-perf summary --failed"),
    (
        "replay init --speed 2",
        "--speed is an option of replay run: iotrace-perf replay run --speed SPEED",
    ),
    ("convert --zzz", "there is no option --zzz in convert"),
    ("-p -1", "-p: -1 is not the number of a process"),
    ("-D -5 ls", "-D -5: a duration is above 0, such as 10s"),
    ("-D -5s ls", "-D -5s: a duration is not below 0; an example: -D 10s"),
    ("summary -n -1", "-n -1: a number from 0 on is needed, such as 10"),
    ("summary --from -1", "--from -1: a duration is not below 0, such as 10s"),
    ("summary --min-size -5", "--min-size -5: a size is 0 or more, such as 8M"),
    ("-D -a ls", "-D needs a duration: -D TIME"),
    ("summary --rows abc", "--rows abc: a whole number is needed, such as 10"),
    ("--realtime=99 ls", "--realtime 99: a priority is a number from 1 to 38"),
    ("replay run P --root R --loop 0", "--loop 0: at least 1 is needed"),
    ("-D abc ls", "-D abc: a number with a unit is needed, such as 10ms"),
    ("-D 99999999999999h ls", "-D 99999999999999h: the duration is too long"),
    ("-D 0 ls", "-D 0: a duration is above 0, such as 10s"),
    ("-D 5x ls", "-D 5x: there is no unit x; the units are ns, us, ms, s, m and h"),
    ("-m K ls", "-m K: a whole number with a unit is needed, such as 8M (K, M, G)"),
    ("-m 8X ls", "-m 8X: there is no unit X; the units are B, K, M, G and T"),
    ("-p firefox", "-p: firefox is not the number of a process; find it: pgrep firefox"),
    ("-a -p 1", "-a and -p exclude each other: leave out one"),
    ("-p 1 true", "give -p 1 or a program (true), not both; several processes: -p 1,PID"),
    ("-p 1 2 3", "give -p 1 or a program (2), not both; several processes: -p 1,2,3"),
    ("summary rec -- true", "give a recording (rec) or a program (true), not both"),
    ("summary rec -a", "give a recording (rec) or -a, not both"),
    ("summary rec -D 1s", "-D is for a new recording, and rec exists: leave out one of them"),
    ("-q -v ls", "-q and -v exclude each other: leave out one"),
    ("-m 8M -m 9M ls", "-m is given twice: leave out one"),
    ("--pgid x", "--pgid: x is not the number of a process; find it: pgrep x"),
    (
        "--max-operations 0 ls",
        "--max-operations: 0 is not a number of operations; give one: 1000000",
    ),
    ("--no-follow -a", "--no-follow and -a exclude each other: leave out one"),
    ("-t 5 ls", "give -t 5 or a program (ls), not both"),
    ("-p 1 -t 5", "-p and -t exclude each other: leave out one"),
    ("--exclude-pid 5 ls", "--exclude-pid needs -a, the whole machine without these processes"),
    ("-G x true", "give -G x or a program (true), not both"),
    ("replay run P", "replay run needs --root DIR, the directory of replay init"),
    (
        "replay run",
        "replay run needs --root DIR, the directory of replay init; and PLAN, from iotrace-perf replay plan LOG -o PLAN",
    ),
    ("replay init P", "replay init needs --root DIR, a new directory for its files"),
    ("import x", "import needs -o LOG.iocap, the log to write"),
    (
        "import",
        "import needs -o LOG.iocap, the log to write; and FILE, the log of another tool, or - for standard input",
    ),
    ("ctl add", "ctl add needs FILE, the file to watch"),
    (
        "ctl",
        "ctl needs a subcommand: add, remove, list, status, stop, start, reset, timereset, log, counts or dump",
    ),
    ("replay", "replay needs a subcommand: plan, init, run, compare, export or purge"),
    ("--as-user bob", "--as-user needs a program: iotrace-perf --as-user USER PROGRAM"),
    ("-p", "-p needs a process number: -p PID"),
    (
        "--names",
        "--names needs a value: auto, kprobe, uprobe, uprobe+fanotify, reader, fanotify, event, links, snapshot or off",
    ),
    (
        "--names foo ls",
        "--names foo: the value is auto, kprobe, uprobe, uprobe+fanotify, reader, fanotify, event, links, snapshot or off",
    ),
    (
        "summary --by prog",
        "--by prog: the value is program, process, user, cgroup, thread, directory, mount, device, rank or host",
    ),
    ("summary rec ls", "one recording only; to record ls: iotrace-perf summary -- ls"),
    ("summary rec lsnosuch", "one recording only: summary takes rec, and lsnosuch is a second one"),
    ("list x", "list takes no more words: leave out x"),
    ("doctor x", "doctor takes no more words: leave out x"),
    ("script a b", "one recording only: script takes a, and b is a second one"),
    ("summary rec --sort", "--sort needs a column: --sort COLUMN"),
    ("help sumary", "there is no subcommand sumary; did you mean: iotrace-perf help summary"),
    ("replay rnu", "there is no subcommand replay rnu; did you mean: iotrace-perf replay run"),
    (
        "replay foo",
        "there is no subcommand replay foo; there are plan, init, run, compare, export and purge",
    ),
    ("ctl lits", "there is no subcommand ctl lits; did you mean: iotrace-perf ctl list"),
    (
        "help replay rnu",
        "there is no subcommand replay rnu; did you mean: iotrace-perf help replay run",
    ),
    ("dump", "there is no subcommand or program dump; did you mean: iotrace-perf script"),
    ("version", "there is no subcommand or program version; did you mean: iotrace-perf --version"),
    ("config", "there is no subcommand or program config"),
    ("stacks --reversed", "--reversed needs --svg FILE, the file of the flame graph"),
    (
        "replay run P --root R --discard",
        "--discard needs --write: a request that discards changes the device, too",
    ),
    ("replay run P --level block", "--level block needs --device DEVICE, the device to use"),
    (
        "replay run P --root R --in-place-overwriting-originals",
        "--root and --in-place-overwriting-originals exclude each other: leave out one",
    ),
    ("ctl add f abc", "MAX abc: a whole number is needed, such as 10"),
    (
        "summary -xQ",
        "there is no option -x in summary; failed operations by file: iotrace-perf files -- PROGRAM",
    ),
    ("sumary x", "there is no subcommand or program sumary; did you mean: iotrace-perf summary x"),
    ("-a summary", "the subcommand comes before its options; try: iotrace-perf summary …"),
    ("info --json --json", "--json is given twice: leave out one"),
    ("--tracer-cpus abc ls", "--tracer-cpus abc: a list of CPUs is needed, such as 0-3,8"),
    (
        "replay run P --root R --speed -1",
        "--speed -1: a speed is a number above 0, such as 2 or 0.5, or max",
    ),
    (
        "--call-graph foo ls",
        "--call-graph foo: the method is fp or dwarf[,BYTES], such as dwarf,16K",
    ),
    ("--max-log 5K ls", "--max-log 5K: the limit is too small: a log needs at least 100K"),
    ("stacks --folded --json", "--folded and --json exclude each other: leave out one"),
    ("summary --json --csv", "--json and --csv exclude each other: leave out one"),
    ("list --json", "--json is an option of reports: iotrace-perf summary --json"),
    ("doctor -v", "-v is an option of recordings: iotrace-perf record -v PROGRAM"),
    ("--stacks foo ls", "--stacks foo: the value is kernel, user or calls"),
    ("summary -t abc", "-t: abc is not the number of a process or thread"),
    ("script -p -5", "-p: -5 is not the number of a process or thread"),
    ("summary --exclude-pid x", "--exclude-pid: x is not the number of a process or thread"),
    ("summary -o x", "there is no option -o in summary; the file of a report: --to FILE"),
    ("-e '' ls", "-e: the value is empty; an example: -e %data,%sync"),
    ("-o '' ls", "-o: the value is empty; an example: -o run1/"),
    ("script --fields ''", "--fields: the value is empty; an example: --fields time,path"),
    ("summary -F ''", "-F: the value is empty; an example: -F '*.log'"),
    ("summary -F '!'", "-F !: the ! excludes the word after it; an example: -F '!*.log'"),
    ("-p ''", "-p: the value is empty; an example: -p 1234"),
    ("-e '!' ls", "-e !: the ! excludes the word after it; an example: -e '!%data'"),
    ("-e read,,write ls", "-e read,,write: a word of the list is empty"),
    ("--names '' ls", "--names: the value is empty"),
    ("help config", "there is no subcommand config"),
    ("list --json", "--json is an option of reports: iotrace-perf summary --json"),
    ("watch -n 0 f", "-n 0: at least 1 is needed"),
];

#[test]
fn errors_name_the_object_the_cause_and_a_remedy() {
    let wrong: Vec<String> = TEXTS
        .iter()
        .map(|(line, expected)| (line, expected, error(line).0))
        .filter(|(_, expected, found)| **expected != found.as_str())
        .map(|(line, expected, found)| {
            format!("{line}\n  expected: {expected}\n  found:    {found}")
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn help_of_the_subcommand_is_named() {
    assert_eq!(error("replay run").1, "iotrace-perf replay run --help");
    assert_eq!(error("-D x ls").1, "iotrace-perf record --help");
    assert_eq!(error("replay rnu").1, "iotrace-perf replay --help");
    assert_eq!(error("sumary").1, "iotrace-perf --help");
    let help = error("replay").1;
    assert!(help.contains("Usage: iotrace-perf replay") && help.contains("purge"), "{help}");
}

/// Calls a function with the path of each subcommand.
fn for_each_verb(command: &Command, path: &str, check: &mut dyn FnMut(&Command, &str)) {
    check(command, path);
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        for_each_verb(verb, &format!("{path} {}", verb.get_name()), check);
    }
}

/// Words of the parser that mean nothing to a user.
const JARGON: [&str; 8] = [
    "unexpected argument",
    "invalid digit",
    "use '-- ",
    "cannot be used with",
    "Usage:",
    "possible values",
    "tip:",
    "for '",
];

#[track_caller]
fn check_plain(line: &str) {
    let (text, _) = error(line);
    let found: Vec<_> = JARGON.iter().filter(|word| text.contains(**word)).collect();
    assert!(found.is_empty() && text.lines().count() == 1, "{line}: {found:?} in {text}");
}

#[test]
fn misspelled_options_have_plain_messages_in_all_subcommands() {
    let mut count = 0;
    let root = invocation::command();
    for_each_verb(&root, "", &mut |command, path| {
        let has_program = path.is_empty();
        for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
            let Some(long) = arg.get_long().filter(|long| *long != "help") else { continue };
            let line = format!("{path} --{long}z");
            if has_program || !command.has_subcommands() {
                check_plain(&line);
                count += 1;
            }
        }
        check_plain(&format!("{path} --no-such-option"));
    });
    assert!(count > 200, "{count}");
}

#[test]
fn values_that_are_none_have_plain_messages_in_all_subcommands() {
    let root = invocation::command();
    for_each_verb(&root, "", &mut |command, path| {
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let Some(long) = arg.get_long().filter(|_| !command.has_subcommands()) else {
                continue;
            };
            check_plain(&format!("{path} --{long} ''"));
            if arg.get_num_args().is_none_or(|number| number.min_values() > 0) {
                check_plain(&format!("{path} --{long}"));
            }
        }
    });
}
