//! Many locations, many definitions, a full disk.
//!
//! Some tests need a process of their own: the test program then runs itself again with one of the
//! ignored tests, under `ulimit` or in a mount namespace.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use common::{Scratch, assert_valid, define_minimum, empty_location, is_root, run, skip};
use otf2_sys::{
    Archive, AttributeRef, AttributeValue, Error, EvtWriter, GlobalDefs, IoFileRef, IoHandleFlags,
    IoHandleRef, IoParadigm, IoParadigmClass, IoParadigmFlags, IoParadigmRef, LocationRef,
    MemoryUse, MetricBase, MetricMember, MetricMemberRef, MetricMode, MetricOccurrence, MetricRef,
    MetricType, Options, RecorderKind, RegionRef, Result, SystemTreeNodeRef,
};

const READ: RegionRef = RegionRef::new(0);
const LOCATIONS: usize = 3000;
/// Values of one event, ten bytes each.
const VALUES: u8 = 250;
/// Number of events: more than one chunk of 256 KiB.
const EVENTS: u64 = 110;
/// Default memory budget.
const BUDGET: u64 = 64 * 1024 * 1024;
/// Number of writers for which it has room: three quarters of it, 4.25 MiB each.
const WRITERS: u64 = 11;
/// Variable with the output directory of the ignored tests.
const DIRECTORY: &str = "OTF2_SYS_TEST_DIRECTORY";

/// Runs `shell` with `"$0" "$@"` being an ignored test of this program.
fn run_again(launcher: &[&str], test: &str, dir: &Path) -> Output {
    let program = env::current_exe().expect("the path of this program");
    let (first, rest) = launcher.split_first().expect("a launcher");
    Command::new(first)
        .args(rest)
        .arg(program)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(DIRECTORY, dir)
        .output()
        .expect("run the test program again")
}

fn directory() -> PathBuf {
    env::var_os(DIRECTORY).expect("run by another test only").into()
}

fn assert_passed(output: &Output) {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

#[test]
fn three_thousand_locations_need_no_more_than_1024_files() {
    let dir = Scratch::new("locations");
    let limited = "ulimit -n 1024; exec \"$0\" \"$@\"";
    let output =
        run_again(&["sh", "-c", limited], "child_writes_three_thousand_locations", dir.path());
    assert_passed(&output);
    let anchor = dir.path().join("traces.otf2");
    let check = "ulimit -n 4096 && exec otf2-print --silent -Werror \"$0\"";
    let anchor = anchor.to_str().expect("the path of the test is UTF-8");
    if run("otf2-print", &["--version"]).is_none() {
        return skip("otf2-print (Debian: otf2-tools) is not installed");
    }
    let judged = run("sh", &["-c", check, anchor]).expect("sh is installed");
    if judged.status.code() == Some(2) {
        return skip("readers need 3,000 open files, and the hard limit is lower");
    }
    let complaints = String::from_utf8_lossy(&judged.stderr);
    assert!(judged.status.success() && complaints.is_empty(), "{complaints}");
}

#[test]
#[ignore = "run by three_thousand_locations_need_no_more_than_1024_files"]
fn child_writes_three_thousand_locations() -> Result<()> {
    let limits = fs::read_to_string("/proc/self/limits").expect("read the limits");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    assert_eq!(files.split_whitespace().nth(3), Some("1024"), "{files}");

    assert_eq!(Options::default().memory_budget_bytes, BUDGET);
    let mut archive = Archive::create(&directory(), "traces", Options::default())?;
    let mut writers = (0..LOCATIONS).map(|_| archive.event_writer()).collect::<Result<Vec<_>>>()?;
    let values = [u64::MAX - 1; VALUES as usize];
    for time in 0..EVENTS {
        for writer in &mut writers {
            writer.metric(time, MetricRef::new(0), &values, &[])?;
        }
    }
    // All have equal amounts to write, and those without a writer of the library share a quarter of
    // the budget.
    let used = archive.memory_use();
    assert_eq!((used.open_files, used.library_writers), (WRITERS, WRITERS));
    let waiting = BUDGET / 4;
    assert!((waiting / 2..=waiting).contains(&used.waiting_bytes_max), "{used:?}");
    assert!(used.waiting_file_bytes > 2 * BUDGET, "{used:?}");
    let locations: Vec<LocationRef> = writers.iter().map(EvtWriter::location).collect();
    for writer in writers.into_iter().rev() {
        assert_eq!(archive.close_event_writer(writer)?, EVENTS);
    }
    let used = archive.memory_use();
    assert_eq!((used.open_files, used.library_writers, used.waiting_bytes), (0, 0, 0));
    // One more to close the others one by one.
    assert_eq!((used.open_files_max, used.library_writers_max), (WRITERS + 1, WRITERS + 1));
    archive.finish(|defs| {
        define_minimum(defs, &locations)?;
        define_metric(defs)
    })
}

fn define_metric(defs: &mut GlobalDefs<'_>) -> Result<()> {
    let name = defs.string("value")?;
    let member = MetricMember {
        name,
        description: name,
        metric_type: MetricType::OTHER,
        mode: MetricMode::ABSOLUTE_POINT,
        base: MetricBase::DECIMAL,
        exponent: 0,
        unit: name,
    };
    let members: Vec<_> = (0..u32::from(VALUES)).map(MetricMemberRef::new).collect();
    for &id in &members {
        defs.metric_member(id, &member)?;
    }
    let (occurrence, recorder) = (MetricOccurrence::ASYNCHRONOUS, RecorderKind::ABSTRACT);
    defs.metric_class(MetricRef::new(0), &members, occurrence, recorder)
}

/// Writes equal events to sixteen locations, one after the other or all at the same time.
fn write_sixteen(dir: &Scratch, options: Options, together: bool) -> Result<MemoryUse> {
    const EVENTS: u64 = 200_000;
    let mut archive = Archive::create(dir.path(), "traces", options)?;
    let mut writers = (0..16).map(|_| archive.event_writer()).collect::<Result<Vec<_>>>()?;
    let locations: Vec<LocationRef> = writers.iter().map(EvtWriter::location).collect();
    if together {
        for time in 0..EVENTS {
            for writer in &mut writers {
                write_some(writer, time)?;
            }
        }
    }
    for mut writer in writers {
        if !together {
            (0..EVENTS).try_for_each(|time| write_some(&mut writer, time))?;
        }
        assert_eq!(archive.close_event_writer(writer)?, EVENTS);
    }
    let used = archive.memory_use();
    archive.finish(|defs| define_minimum(defs, &locations))?;
    assert_valid(&dir.path().join("traces.otf2"));
    Ok(used)
}

/// Writes an event; some are larger than others.
fn write_some(writer: &mut EvtWriter, time: u64) -> Result<()> {
    if time.is_multiple_of(1000) {
        let value = AttributeValue::Uint64(u64::MAX - time);
        let attributes: Vec<_> = (0..200).map(|it| (AttributeRef::new(it), value)).collect();
        return writer.enter(time, READ, &attributes);
    }
    writer.enter(time / 3 * 3, READ, &[])
}

/// Event files by name.
fn event_files(dir: &Scratch) -> Vec<(PathBuf, Vec<u8>)> {
    let list = fs::read_dir(dir.path().join("traces")).expect("list");
    let mut files: Vec<_> = list
        .map(|it| it.expect("list").path())
        .filter(|it| it.extension().is_some_and(|it| it == "evt"))
        .map(|it| (it.file_name().expect("a file").into(), fs::read(&it).expect("read")))
        .collect();
    files.sort();
    files
}

/// Fails if the archive depends on which locations get a writer of the library, and when.
#[test]
fn spooled_events_are_unchanged() -> Result<()> {
    let (writers, none, few) =
        (Scratch::new("writers"), Scratch::new("no-writers"), Scratch::new("few-writers"));
    let default = Options::default();
    let used = write_sixteen(&writers, default, false)?;
    assert_eq!((used.library_writers_max, used.open_files_max), (1, 1), "one after the other");

    let used = write_sixteen(&none, Options { open_files_max: 0, ..default }, true)?;
    assert_eq!(used.library_writers_max, 1, "only to close");

    let options = Options { open_files_max: 5, ..default };
    let used = write_sixteen(&few, options, true)?;
    assert_eq!(
        (used.library_writers_max, used.open_files_max),
        (5, 5),
        "the first are closed first"
    );

    let expected = event_files(&writers);
    assert!(expected.len() == 16 && expected.iter().all(|it| it.1.len() > 1_000_000));
    assert!(event_files(&none) == expected, "waiting until the end");
    assert!(event_files(&few) == expected, "a mixture");
    Ok(())
}

/// Fails if the file of waiting events is larger than the events that wait at the same time, or has
/// a name.
#[test]
fn the_space_of_closed_locations_is_used_again() -> Result<()> {
    let dir = Scratch::new("again");
    let options = Options { open_files_max: 0, ..Options::default() };
    let mut archive = Archive::create(dir.path(), "traces", options)?;
    let (mut locations, mut sizes) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let mut pair = [archive.event_writer()?, archive.event_writer()?];
        for time in 0..100_000 {
            write_some(&mut pair[0], time)?;
            write_some(&mut pair[1], time)?;
        }
        for writer in pair {
            locations.push(writer.location());
            assert_eq!(archive.close_event_writer(writer)?, 100_000);
        }
        sizes.push(archive.memory_use().waiting_file_bytes);
    }
    assert!(sizes[0] > 500_000 && sizes.iter().all(|it| *it == sizes[0]), "{sizes:?}");
    assert_eq!(archive.memory_use().waiting_bytes, 0);
    let files = fs::read_dir(dir.path().join("traces")).expect("list").count();
    assert_eq!(files, locations.len(), "only the locations' files have names");
    archive.finish(|defs| define_minimum(defs, &locations))?;
    assert_valid(&dir.path().join("traces.otf2"));
    Ok(())
}

/// Python program that counts the definitions, following every reference (`otf2-print -G` takes
/// minutes for this number).
const COUNT_DEFINITIONS: &str = "
import sys, otf2
with otf2.reader.open(sys.argv[1]) as trace:
    d = trace.definitions
    print(len(d.io_files), len(d.io_handles), d.io_handles[99999].file.name)
";

#[test]
fn a_hundred_thousand_files_are_defined() -> Result<()> {
    let dir = Scratch::new("files");
    let count = 100_000_u32;
    let mut archive = dir.archive()?;
    let location = empty_location(&mut archive)?;
    archive.finish(|defs| -> Result<()> {
        define_minimum(defs, &[location])?;
        let (posix, empty) = (defs.string("POSIX")?, defs.string("")?);
        let paradigm = IoParadigm {
            identification: posix,
            name: posix,
            class: IoParadigmClass::SERIAL,
            flags: IoParadigmFlags::OS,
            properties: &[],
        };
        let (node, posix) = (SystemTreeNodeRef::new(0), IoParadigmRef::new(0));
        defs.io_paradigm(posix, &paradigm)?;
        for id in 0..count {
            let name = defs.string(&format!("/a/directory/of/some/depth/file-{id}"))?;
            let (file, handle) = (IoFileRef::new(id), IoHandleRef::new(id));
            defs.io_regular_file(file, name, node)?;
            defs.io_handle(handle, empty, Some(file), posix, IoHandleFlags::NONE, None)?;
        }
        Ok(())
    })?;
    let size = fs::metadata(dir.path().join("traces.def")).expect("the definitions").len();
    assert!((5_000_000..15_000_000).contains(&size), "{size} bytes");

    let anchor = dir.path().join("traces.otf2");
    let anchor = anchor.to_str().expect("the path of the test is UTF-8");
    let python = ["/usr/bin/python3", "python3"].into_iter().find(|python| {
        run(python, &["-c", "import otf2"]).is_some_and(|output| output.status.success())
    });
    let Some(python) = python else {
        skip("the Python reader (Debian: python3-otf2) is not installed");
        return Ok(());
    };
    let output = run(python, &["-c", COUNT_DEFINITIONS, anchor]).expect("python is installed");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "100000 100000 /a/directory/of/some/depth/file-99999\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[test]
fn a_full_disk_is_reported_and_survived() {
    if !is_root() {
        #[expect(clippy::print_stderr, reason = "a skipped test says so")]
        {
            eprintln!("skipped: mounting a small file system needs root");
        }
        return;
    }
    let dir = Scratch::new("full");
    let mount = "mount -t tmpfs -o size=6m tmpfs \"$OTF2_SYS_TEST_DIRECTORY\" || exit 77; \
                 exec \"$0\" \"$@\"";
    for test in [
        "child_fills_the_disk_with_events",
        "child_fills_the_disk_when_closing",
        "child_fills_the_disk_with_events_that_wait",
        "child_fills_the_disk_with_definitions",
    ] {
        let output = run_again(&["unshare", "-m", "sh", "-c", mount], test, dir.path());
        if !output.status.success() && !String::from_utf8_lossy(&output.stdout).contains("running")
        {
            return skip("cannot mount a file system of its own here");
        }
        assert_passed(&output);
        // The library itself prints no error.
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!errors.contains("[OTF2]"), "{errors}");
    }
}

#[test]
#[ignore = "run by a_full_disk_is_reported_and_survived"]
fn child_fills_the_disk_with_events() -> Result<()> {
    let mut archive = Archive::create(&directory(), "traces", Options::default())?;
    let mut idle = archive.event_writer()?;
    idle.enter(1, READ, &[])?;
    let mut writer = archive.event_writer()?;
    let mut error = None;
    for time in 0..3_000_000 {
        if let Err(failure) = writer.enter(time, READ, &[]) {
            error = Some(failure);
            break;
        }
    }
    let error = error.expect("the disk cannot hold three million events");
    assert!(error.is_out_of_space(), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("write an event of location 1: No space left on device"), "{text}");
    assert!(text.contains("(OTF2: ") && text.contains("/traces/1.evt"), "{text}");
    assert_eq!(writer.leave(2_000_000, READ, &[]), Err(Error::Abandoned));
    assert_eq!(idle.leave(2, READ, &[]), Err(Error::Abandoned));
    assert_eq!(archive.close_event_writer(writer), Err(Error::Abandoned));
    drop(idle);
    assert!(archive.finish(|_| Ok::<(), Error>(())).is_err());
    assert!(!directory().join("traces.otf2").exists());
    Ok(())
}

/// Fills the disk when the last locations are closed: each location fits into memory.
#[test]
#[ignore = "run by a_full_disk_is_reported_and_survived"]
fn child_fills_the_disk_when_closing() -> Result<()> {
    let mut archive = Archive::create(&directory(), "traces", Options::default())?;
    let mut writers = (0..4).map(|_| archive.event_writer()).collect::<Result<Vec<_>>>()?;
    for time in 0..200_000 {
        for writer in &mut writers {
            writer.enter(time, READ, &[])?;
        }
    }
    let closed: Vec<Result<u64>> =
        writers.into_iter().map(|writer| archive.close_event_writer(writer)).collect();
    assert_eq!(closed[0], Ok(200_000));
    assert!(matches!(&closed[2], Err(error) if error.is_out_of_space()), "{closed:?}");
    assert_eq!(closed[3], Err(Error::Abandoned));
    drop(archive);
    assert!(!directory().join("traces.otf2").exists());
    Ok(())
}

/// Fills the disk with events that wait: no location's file may be opened.
#[test]
#[ignore = "run by a_full_disk_is_reported_and_survived"]
fn child_fills_the_disk_with_events_that_wait() -> Result<()> {
    let options = Options { open_files_max: 0, ..Options::default() };
    let mut archive = Archive::create(&directory(), "traces", options)?;
    let mut writers = (0..3).map(|_| archive.event_writer()).collect::<Result<Vec<_>>>()?;
    let written = (0..4_000_000).try_for_each(|time| writers[1].enter(time, READ, &[]));
    let error = written.expect_err("the disk cannot hold four million events");
    assert!(error.is_out_of_space(), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("keep the events of location 1: No space left on device"), "{text}");
    for writer in writers {
        assert_eq!(archive.close_event_writer(writer), Err(Error::Abandoned));
    }
    drop(archive);
    assert!(!directory().join("traces.otf2").exists());
    Ok(())
}

#[test]
#[ignore = "run by a_full_disk_is_reported_and_survived"]
fn child_fills_the_disk_with_definitions() -> Result<()> {
    let archive = Archive::create(&directory(), "traces", Options::default())?;
    let finished = archive.finish(|defs| -> Result<()> {
        define_minimum(defs, &[])?;
        for id in 0..300_000 {
            defs.string(&format!("/a/directory/of/some/depth/file-{id}"))?;
        }
        Ok(())
    });
    let error = finished.expect_err("the disk cannot hold them");
    assert!(error.is_out_of_space(), "{error:?}");
    assert!(!directory().join("traces.otf2").exists());
    Ok(())
}
