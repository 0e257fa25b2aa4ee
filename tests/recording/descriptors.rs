//! Files of descriptors, compared with the program's own record of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::driver::json::{JsonFault, JsonOperation, faults};
use crate::support::driver::process;
use crate::support::driver::recording::{
    Recording, TIMEOUT, can_record, compile, names_in_time, record, recorder, size, wait_until,
};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::scratch_dir;

/// Records this program of `tests/programs`, which works in a directory of its own and writes what
/// it knows to a file.
fn recorded(program: &str, dir: &Path, options: &[&str]) -> (Recording, String) {
    let program = compile(program, dir);
    let (place, log) = (dir.join("place"), dir.join("log"));
    fs::create_dir(&place).expect("make it");
    let [place, log_text] = [&place, &log].map(|it| it.to_str().expect("text"));
    let (finished, recording) =
        record(&dir.join("trace"), options, &[program.as_str(), place, log_text]);
    finished.success();
    recording.assert_whole();
    (recording, fs::read_to_string(log).expect("the program wrote a log"))
}

/// Steps from this offset on go through symbolic links.
const DOUBTFUL: u64 = 1000;

/// Reads of `renames` whose names were compared with the kernel's.
#[derive(Debug, Default)]
struct ComparedNames {
    /// Number of reads of a file whose name a rename gave, equal to the kernel's.
    renamed: usize,
    /// Offsets of reads whose file has a doubtful name.
    doubtful: Vec<u64>,
}

/// Compares the name of each file that was read with the kernel's name at that moment. A name that
/// is not doubtful must be the same.
fn compared(recording: &Recording, log: &str) -> ComparedNames {
    let operations = recording.operations();
    let reads: BTreeMap<u64, &JsonOperation> = operations
        .iter()
        .filter(|it| it.name == "pread64" && it.comm.as_deref() == Some("renames"))
        .filter_map(|it| Some((it.offset?, it)))
        .collect();
    let mut compared = ComparedNames::default();
    for line in log.lines() {
        let (offset, name) = line.split_once(' ').expect("OFFSET NAME");
        let offset: u64 = offset.parse().expect("a number");
        let read = reads.get(&offset).unwrap_or_else(|| panic!("no read at {offset}"));
        let source = read.path_source.as_deref().unwrap_or_default();
        if source == "unverified" {
            compared.doubtful.push(offset);
        } else {
            assert_eq!(read.path.as_deref(), Some(name), "at {offset}: {read:?}");
        }
        compared.renamed += usize::from(source == "renamed");
    }
    compared
}

/// Fails if a file has another name, after a rename or removal, than the kernel gave it at that
/// moment; or is called doubtful where it is not.
#[test]
fn open_files_have_the_kernel_names() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let options = ["--source", "tracefs", "--names", names_in_time()];
    // A path that was read too late, on a busy machine, is counted and not followed: then nothing
    // is shown here.
    let recorded_well = (0..5).find_map(|_| {
        let dir = scratch_dir("renames");
        let (recording, log) = recorded("renames.c", dir.path(), &options);
        (recording.number("unfollowed") == 0).then_some((dir, recording, log))
    });
    let (dir, recording, log) =
        recorded_well.expect("one of five recordings read all paths in time");
    recording.assert_archive(&dir.path().join("archive"));
    let ComparedNames { renamed, doubtful } = compared(&recording, &log);
    assert!(doubtful.iter().all(|it| *it > DOUBTFUL), "{doubtful:?}");
    assert!(renamed > 40, "{renamed} names were followed");
    assert!(!doubtful.is_empty(), "nothing went through a link");
}

/// Fails if a file has a wrong name where directories are looked up beside the program, perhaps
/// after their rename; or if no rename is followed.
#[test]
fn files_whose_directories_are_renamed_at_once_have_no_wrong_names() {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _alone = alone();
    let options = ["--source", "tracefs", "--names", "uprobe+fanotify"];
    let mut renamed = 0;
    for _ in 0..5 {
        let dir = scratch_dir("renames");
        let (recording, log) = recorded("renames.c", dir.path(), &options);
        renamed += compared(&recording, &log).renamed;
    }
    assert!(renamed > 5 * 20, "{renamed} names were followed");
}

/// Assembles the 32-bit program; `None` if this machine has no such programs, or no assembler for
/// them.
fn other_table(dir: &Path) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/int80.s");
    let [object, program] = ["int80.o", "int80"].map(|it| dir.join(it));
    let runs = |command: &mut Command| command.status().is_ok_and(|it| it.success());
    let is_made = cfg!(target_arch = "x86_64")
        && runs(Command::new("as").arg("--32").arg(&source).arg("-o").arg(&object))
        && runs(Command::new("ld").args(["-m", "elf_i386"]).arg(&object).arg("-o").arg(&program));
    let input = fs::File::open("/dev/zero").expect("it is there");
    let is_run = is_made
        && Command::new("sh")
            .args(["-c", &format!("{} 7<&0 >/dev/null", program.display())])
            .stdin(input)
            .status()
            .is_ok_and(|it| it.success());
    is_run.then(|| program.to_str().expect("text").to_owned())
}

/// Fails if calls of a 32-bit program are taken for those of the same number, if it is not reported
/// that there was one, or if a position that it has moved is believed.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn calls_of_a_32_bit_program_are_left_out_and_reported() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("table");
    let Some(program) = other_table(dir.path()) else {
        eprintln!("skipped: no 32-bit programs here");
        return;
    };
    let file = dir.path().join("file");
    fs::write(&file, [b'x'; 100]).expect("written");
    // The shell reads its line, the program ten bytes, `head` the rest of the shared position.
    let script = format!("exec 7<{0}; {program} <&7; head -c 5 <&7; {program} <&7", file.display());
    for source in ["perf", "tracefs"] {
        let output = dir.path().join(source);
        let options = ["--source", source];
        let (finished, recording) = record(&output, &options, &["sh", "-c", &script]);
        finished.success();
        recording.assert_whole();
        assert_eq!(recording.number("other_programs"), 2, "{:#}", recording.info);
        let operations = recording.operations();
        let of =
            |comm: &str| operations.iter().filter(|it| it.comm.as_deref() == Some(comm)).count();
        assert_eq!(of("int80"), 0);
        let left_out = recording.info["ignored"]["other-table"].as_u64().unwrap_or(0);
        assert_eq!(left_out > 0, source == "perf", "{left_out} records of {source}");
        let moved: Vec<_> =
            operations.iter().filter(|it| it.name == "read" && it.result == Some(5)).collect();
        assert!(!moved.is_empty() && moved.iter().all(|it| it.offset.is_none()), "{moved:?}");
    }
}

/// Fails if a 32-bit program that runs already is not recognised.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn running_32_bit_program_is_reported() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("table");
    let Some(program) = other_table(dir.path()) else {
        eprintln!("skipped: no 32-bit programs here");
        return;
    };
    // The child waits for its first byte.
    let script = format!("exec {program} 7<&0");
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let comm = format!("/proc/{}/comm", child.id());
    wait_until("it runs", || fs::read_to_string(&comm).is_ok_and(|it| it == "int80\n"));
    let options = ["--source", "perf"];
    let recording = recorded_from_now_on(&mut child, &dir.path().join("trace"), &options, &[0; 10]);
    recording.assert_whole();
    assert_eq!(recording.number("other_programs"), 1);
    assert_eq!(recording.operations().len(), 0);
    assert!(recording.info["ignored"]["other-table"].as_u64() > Some(5), "{:#}", recording.info);
}

/// Fails if a descriptor that came over a socket is called by a wrong name, is not found again
/// where what was received is recorded, or if a position is believed that the receiver has moved.
#[test]
fn descriptors_received_over_a_socket_are_right_or_unknown() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    for (options, known) in [(["-e", "%default"], 2), (["-e", "%default,%socket"], 5)] {
        let dir = scratch_dir("passes");
        let (recording, log) = recorded("scm_rights.c", dir.path(), &options);
        recording.assert_archive(&dir.path().join("archive"));
        let operations = recording.operations();
        let mut right = 0;
        for line in log.lines() {
            let (offset, name) = line.split_once(' ').expect("OFFSET NAME");
            let is_it =
                |it: &&JsonOperation| it.name == "pread64" && it.offset == offset.parse().ok();
            let read = operations.iter().find(is_it).expect("it was recorded");
            assert!(read.path.as_deref().is_none_or(|it| it == name), "{name}: {read:?}");
            right += usize::from(read.path.is_some());
        }
        assert_eq!(right, known, "names with {options:?}: {log}{operations:#?}");
        let moved = |it: &&JsonOperation| {
            it.name == "read" && it.path.as_deref().is_some_and(|it| it.ends_with("/c"))
        };
        let moved = operations.iter().find(moved).expect("the parent's read");
        assert!(known == 2 || moved.offset.is_none(), "{moved:?}");
    }
}

/// Attaches to a process that waits for input, gives it these bytes, and records it to its end.
fn recorded_from_now_on(
    child: &mut Child,
    output: &Path,
    options: &[&str],
    input: &[u8],
) -> Recording {
    let pid = child.id().to_string();
    let mut recorder = recorder(output, &[options, &["-p", &pid]].concat(), &[]);
    let log = output.join("traces.iocap");
    let recording = std::thread::spawn(move || {
        process::run(&mut recorder, TIMEOUT).expect("it ends").success()
    });
    wait_until("the log begins", || size(&log) > 0);
    // Everything is on when the log begins; the snapshot is not over.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let mut stdin = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut stdin, input).expect("it takes them");
    drop(stdin);
    recording.join().expect("it ends");
    child.wait().expect("it ends");
    Recording::open(&log)
}

/// Fails if what was mapped before the recording is not known from `/proc/PID/maps`.
#[test]
fn mappings_before_the_attach_are_known() {
    if !can_record(&[Need::KernelFile("/sys/kernel/tracing/events/exceptions/page_fault_user")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("maps");
    let program = compile("maps.c", dir.path());
    let (place, log) = (dir.path().join("place"), dir.path().join("log"));
    fs::create_dir(&place).expect("make it");
    let mut waiting = Command::new(program);
    let mut child =
        waiting.arg(&place).arg(&log).arg("wait").stdin(Stdio::piped()).spawn().expect("it starts");
    let maps = format!("/proc/{}/maps", child.id());
    wait_until("it has mapped", || {
        fs::read_to_string(&maps).is_ok_and(|it| it.contains("/place/mapped"))
    });
    let options = ["-e", "%default,%map,fault"];
    let recording = recorded_from_now_on(&mut child, &dir.path().join("trace"), &options, b"x");
    recording.assert_whole();
    let all = faults(&recording.lines());
    let of_file = |it: &&JsonFault| it.path.as_deref().is_some_and(|it| it.contains("/place/"));
    let ours: Vec<_> =
        all.iter().filter(of_file).map(|it| (it.address.unwrap_or(0), it.offset)).collect();
    let text = fs::read_to_string(log).expect("the program wrote a log");
    let touched: Vec<(u64, u64)> = text
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            let address =
                u64::from_str_radix(words.next().expect("an address"), 16).expect("hexadecimal");
            (address, words.next().and_then(|it| it.parse().ok()).expect("an offset"))
        })
        .collect();
    assert_eq!(ours, touched);
    assert_eq!(all.iter().find(of_file).and_then(|it| it.path_source.as_deref()), Some("snapshot"));
}

/// Fails if a page that the program touches is not reported with its file and offset, or if a call
/// with an address does not lead to the file that is mapped there.
#[test]
fn page_faults_have_their_file() {
    if !can_record(&[Need::KernelFile("/sys/kernel/tracing/events/exceptions/page_fault_user")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("maps");
    let (recording, log) = recorded("maps.c", dir.path(), &["-e", "%default,%map,fault"]);
    recording.assert_archive(&dir.path().join("archive"));
    let file = |name: &str| dir.path().join("place").join(name).to_str().expect("text").to_owned();
    let (before, after) = (file("mapped"), file("renamed"));
    let lines = recording.lines();
    let all = faults(&lines);
    assert_eq!(u64::try_from(all.len()).ok(), recording.info["faults"].as_u64());
    let ours: Vec<_> = all
        .iter()
        .filter(|it| it.path.as_ref().is_some_and(|it| [&before, &after].contains(&it)))
        .collect();
    let shown: Vec<String> = ours
        .iter()
        .map(|it| {
            let access = it.access.as_deref().unwrap_or("?");
            format!("{:x} {} {access}", it.address.unwrap_or(0), it.offset)
        })
        .collect();
    let touched: Vec<&str> = log.lines().collect();
    assert_eq!(shown, touched);
    // Without the rename's paths the file keeps its name.
    let after = if recording.number("unfollowed") == 0 { after } else { before.clone() };
    let names: Vec<&str> = ours.iter().filter_map(|it| it.path.as_deref()).collect();
    assert_eq!(names[..3], [&before; 3].map(String::as_str));
    assert!(names[3..].iter().all(|it| *it == after), "{names:?}");
    assert!(recording.info["ignored"]["no-file"].as_u64() > Some(0), "{:#}", recording.info);

    let operations = recording.operations();
    let page = u64::try_from(
        nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
            .expect("it is known")
            .expect("it is known"),
    )
    .expect("positive");
    let of = |name: &str| {
        let is_it = |it: &&JsonOperation| {
            it.name == name && it.path.as_ref().is_some_and(|it| [&before, &after].contains(&it))
        };
        let places = operations.iter().filter(is_it);
        places
            .map(|it| (it.path.clone().unwrap_or_default(), it.offset.unwrap_or(0) / page))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("mmap"), [(before.clone(), 64)]);
    assert_eq!(of("msync"), [(before.clone(), 128)]);
    assert_eq!(of("mremap"), [(after.clone(), 64)]);
    assert_eq!(of("madvise"), [(after.clone(), 96)]);
    assert_eq!(of("munmap"), [(after.clone(), 64), (after.clone(), 80)]);
}

/// Fails if a program has another path than its exec was given, or if one that did not start has
/// any.
#[test]
fn programs_have_the_path_of_their_exec() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    for source in ["perf", "tracefs"] {
        let dir = scratch_dir("execs");
        let options = ["--source", source, "--names", "reader", "-e", "%default,%process"];
        let (recording, log) = recorded("execs.c", dir.path(), &options);
        recording.assert_archive(&dir.path().join("archive"));
        let operations = recording.operations();
        for line in log.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let &[pid, call, path, absolute] = words.as_slice() else { panic!("{line}") };
            let is_it = |it: &&JsonOperation| it.name == call && it.pid.to_string() == pid;
            let exec = operations.iter().find(is_it).expect(line);
            let is_there = absolute != "-";
            let expected = is_there.then(|| if path == "-" { "" } else { path });
            assert_eq!(exec.path.as_deref(), expected, "{line}: {exec:?}");
            if is_there {
                assert_eq!(exec.path_source.as_deref(), Some("exec-event"), "{exec:?}");
                // With perf the path of `chdir` is not read, so the base of a relative path is
                // unknown.
                let reported = exec.path_absolute.as_deref();
                assert!(reported.is_some() || source == "perf", "{exec:?}");
                assert!(reported.is_none_or(|it| it == absolute), "{line}: {exec:?}");
            }
        }
    }
}

/// Fails if a file is taken for another one that has the same name in other mounts: its size, its
/// position, its removal; or if a descriptor is gone that another thread has closed for itself.
#[test]
fn files_of_one_name_in_two_mount_namespaces_are_two() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    // Names that were read too late, on a busy machine, are counted, and doubtful.
    let recorded_well = (0..5).find_map(|_| {
        let dir = scratch_dir("namespaces");
        let options = ["--source", "tracefs", "--names", "reader"];
        let (recording, log) = recorded("namespaces.c", dir.path(), &options);
        let late = ["unfollowed", "unverified"].iter().map(|it| recording.number(it)).sum::<u64>();
        (late == 0).then_some((dir, recording, log))
    });
    let (dir, recording, log) =
        recorded_well.expect("one of five recordings read all paths in time");
    recording.assert_archive(&dir.path().join("archive"));
    let file = dir.path().join("place/sub/file");
    let file = file.to_str().expect("text");
    let mut operations = recording.operations();
    operations
        .retain(|it| it.name == "read" && it.path.as_ref().is_some_and(|it| it.starts_with(file)));
    let parent = operations.iter().map(|it| it.pid).min();
    let mut reads = operations.iter().collect::<Vec<_>>();
    for line in log.lines() {
        let words: Vec<u64> = line.split(' ').map(|it| it.parse().expect("a number")).collect();
        let &[pid, offset, bytes, deleted] = words.as_slice() else { panic!("{line}") };
        let place = reads.iter().position(|it| u64::try_from(it.pid) == Ok(pid)).expect(line);
        let read = reads.remove(place);
        let name = if deleted == 1 { format!("{file} (deleted)") } else { file.to_owned() };
        assert_eq!(read.path, Some(name), "{line}: {read:?}");
        assert_eq!(read.result, i64::try_from(bytes).ok(), "{line}: {read:?}");
        assert_eq!(read.offset, Some(offset), "{line}: {read:?}");
        assert_eq!(read.path_mounts.is_none(), Some(read.pid) == parent, "{line}: {read:?}");
    }
    assert_eq!(reads.len(), 0, "{reads:?}");
}
