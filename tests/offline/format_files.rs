//! Real `format` files, from the corpus and from the running kernel, through
//! `tracefs`: each parses and prints back as the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use expect_test::expect;
use iotrace_perf::tracefs::{BindError, EventFormat, FieldKind};

type TestResult = Result<(), Box<dyn Error>>;

/// Mount points of tracefs: its own, and the older one below debugfs.
const TRACEFS_PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// The names of the entries of a folder that are folders, sorted.
fn folders(path: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// The paths of all format files below an `events` folder, sorted.
fn format_files(events: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for system in folders(events)? {
        let system = events.join(system);
        for event in folders(&system)? {
            let file = system.join(event).join("format");
            if file.exists() {
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// Parses a format file's text and checks what must hold for any of them.
fn checked(path: &Path, text: &str) -> Result<EventFormat, Box<dyn Error>> {
    let path = path.display();
    let format = EventFormat::parse(text).map_err(|error| format!("{path}: {error}"))?;
    assert_eq!(format.to_string(), text, "{path} prints back as it was");
    assert!(format.id.is_some(), "{path} has an ID");
    let common: Vec<_> = format.common_fields().iter().map(|f| f.name.as_str()).collect();
    assert!(common.starts_with(&["common_type", "common_flags"]), "{path}: {common:?}");
    assert!(
        format.event_fields().iter().all(|field| !field.name.starts_with("common_")),
        "{path}: an event's own field among the common ones"
    );
    for field in &format.fields {
        assert!(field.declaration.contains(&field.name), "{path}: {field:?}");
    }
    Ok(format)
}

/// All formats of one kernel of the corpus, by `system/event`.
fn corpus_formats(release: &str) -> Result<BTreeMap<String, EventFormat>, Box<dyn Error>> {
    let events = corpus().join("tracefs").join(release).join("events");
    let mut formats = BTreeMap::new();
    for path in format_files(&events)? {
        let format = checked(&path, &fs::read_to_string(&path)?)?;
        let folder = path.parent().and_then(|event| event.strip_prefix(&events).ok());
        let name = folder.ok_or("a format file outside the corpus")?.display().to_string();
        formats.insert(name, format);
    }
    Ok(formats)
}

fn corpus_releases() -> io::Result<BTreeSet<String>> {
    folders(&corpus().join("tracefs"))
}

#[test]
fn format_files_of_the_corpus_print_back_unchanged() -> TestResult {
    for release in corpus_releases()? {
        let formats = corpus_formats(&release)?;
        assert!(formats.len() > 100, "{release}: {} files", formats.len());
        for (name, format) in formats {
            let (_, event) = name.split_once('/').ok_or("an event without a system")?;
            assert_eq!(format.name, event, "{release}: the file is in its event's folder");
        }
    }
    Ok(())
}

#[test]
fn the_readme_lists_the_kernels_of_the_corpus() -> TestResult {
    let readme = fs::read_to_string(corpus().join("README.md"))?;
    let listed: Vec<&str> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(release, _)| release)
        .collect();
    let present: Vec<String> = corpus_releases()?.into_iter().collect();
    assert_eq!(listed, present);
    Ok(())
}

/// Fields that the tracer reads bind on every kernel of the corpus.
#[test]
fn the_tracers_fields_bind_on_every_kernel() -> TestResult {
    for release in corpus_releases()? {
        let formats = corpus_formats(&release)?;
        bind_tracer_fields(&formats).map_err(|error| format!("{release}: {error}"))?;
    }
    Ok(())
}

fn bind_tracer_fields(formats: &BTreeMap<String, EventFormat>) -> TestResult {
    let event = |name: &str| formats.get(name).ok_or_else(|| format!("no file for {name}"));

    let enter = event("raw_syscalls/sys_enter")?;
    enter.int("id")?;
    assert_eq!(enter.array("args")?.count(), 6);
    event("raw_syscalls/sys_exit")?.int("ret")?;
    event("syscalls/sys_enter_openat")?.int("filename")?;
    event("syscalls/sys_exit_openat")?.int("ret")?;

    let fork = event("task/task_newtask")?;
    fork.int("pid")?;
    fork.int("clone_flags")?;
    fork.string("comm")?;
    event("task/task_rename")?.string("newcomm")?;
    event("sched/sched_process_exec")?.string("filename")?;
    event("sched/sched_process_exit")?.int("pid")?;

    for name in ["block_getrq", "block_rq_issue", "block_rq_complete", "block_bio_queue"] {
        let block = event(&format!("block/{name}"))?;
        for field in ["dev", "sector", "nr_sector", "common_pid"] {
            block.int(field)?;
        }
        block.string("rwbs")?;
    }
    event("block/block_bio_remap")?.int("old_sector")?;
    Ok(())
}

/// The layouts that differ between kernels: the reason not to write any down.
#[test]
fn layouts_differ_between_kernels() -> TestResult {
    let mut lines = String::new();
    for release in corpus_releases()? {
        let formats = corpus_formats(&release)?;
        let place = |event: &str, name: &str| match formats.get(event).map(|f| f.field(name)) {
            None => "no event".to_owned(),
            Some(None) => "no field".to_owned(),
            Some(Some(field)) => format!("{}+{}", field.offset, field.size),
        };
        lines += &format!(
            "{release}: issue rwbs {}, complete error {}, io_start bytes {}, openat name {}\n",
            place("block/block_rq_issue", "rwbs"),
            place("block/block_rq_complete", "error"),
            place("block/block_io_start", "bytes"),
            place("syscalls/sys_enter_openat", "__filename_val"),
        );
    }
    expect![[r#"
        5.10.0-32-cloud-amd64: issue rwbs 32+8, complete error 28+4, io_start bytes no event, openat name no field
        6.1.0-56-cloud-amd64: issue rwbs 32+8, complete error 28+4, io_start bytes no event, openat name no field
        6.12.117+deb12-cloud-amd64: issue rwbs 34+8, complete error 28+4, io_start bytes 28+4, openat name no field
        6.18.44-fc-v669: issue rwbs 34+10, complete error 28+4, io_start bytes 28+4, openat name no field
        7.2.12+deb13-cloud-amd64: issue rwbs 34+10, complete error 28+4, io_start bytes 28+4, openat name 48+4
    "#]].assert_eq(&lines);
    Ok(())
}

/// A kernel that copies the opened name into the record (6.19 and later), and
/// one that does not.
#[test]
fn name_in_an_openat_record_is_optional() -> TestResult {
    let mut with_name = Vec::new();
    for release in corpus_releases()? {
        let formats = corpus_formats(&release)?;
        let openat = formats.get("syscalls/sys_enter_openat").ok_or("no openat file")?;
        if openat.string_opt("__filename_val")?.is_some() {
            with_name.push(release);
        } else {
            let missing = BindError::Missing {
                event: "sys_enter_openat".to_owned(),
                field: "__filename_val".to_owned(),
            };
            assert_eq!(openat.string("__filename_val"), Err(missing));
        }
    }
    expect!["7.2.12+deb13-cloud-amd64"].assert_eq(&with_name.join("\n"));
    Ok(())
}

/// Every declaration of the corpus that has no accessor. A new one here is a
/// type the classification does not know yet.
#[test]
fn few_declarations_are_opaque() -> TestResult {
    let mut opaque = BTreeSet::new();
    for release in corpus_releases()? {
        for format in corpus_formats(&release)?.values() {
            for field in &format.fields {
                if field.kind == FieldKind::Opaque {
                    opaque.insert(format!("{} ({} bytes)", field.declaration, field.size));
                }
            }
        }
    }
    let opaque: Vec<String> = opaque.into_iter().collect();
    expect![[r#"
        __data_loc char[] path (8 bytes)
        __data_loc char[][2] names (8 bytes)"#]]
    .assert_eq(&opaque.join("\n"));
    Ok(())
}

/// All events of the running kernel, with the IDs it gives beside them.
///
/// Needs a readable tracefs, that is root. Where root runs it under CI a
/// missing tracefs is a failure: the test would else pass without having run.
#[test]
fn format_files_of_the_running_kernel_print_back_unchanged() -> TestResult {
    let readable = |place: &&str| fs::read_dir(Path::new(place).join("events")).is_ok();
    let Some(place) = TRACEFS_PLACES.into_iter().find(readable) else {
        let must_run =
            std::env::var("CI").is_ok_and(|ci| ci == "true") && nix::unistd::geteuid().is_root();
        assert!(!must_run, "no tracefs at {TRACEFS_PLACES:?}, although this is root under CI");
        skipped(&format!("no readable tracefs at {TRACEFS_PLACES:?}"))?;
        return Ok(());
    };

    let mut count = 0_usize;
    for path in format_files(&Path::new(place).join("events"))? {
        // Others may remove events they defined while this runs.
        let Some(text) = read_if_there(&path)? else { continue };
        let format = checked(&path, &text)?;
        if let Some(id) = read_if_there(&path.with_file_name("id"))? {
            let path = path.display();
            assert_eq!(format.id, Some(id.trim().parse()?), "{path}: the `id` beside it");
        }
        count += 1;
    }
    assert!(count > 100, "{place} has {count} events");
    Ok(())
}

/// The text of a file, or `None` when it went away between listing and reading.
fn read_if_there(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(_) if !path.exists() => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

/// Says on the terminal that a test did not run; the test harness would keep
/// what the print macros write to itself.
fn skipped(reason: &str) -> io::Result<()> {
    writeln!(io::stderr(), "skipped: {reason}")
}
