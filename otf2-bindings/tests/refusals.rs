//! Errors that the writer refuses, repairs or survives.

#[expect(dead_code, reason = "each test program uses a part of it")]
mod common;

use std::fs;
use std::path::Path;

use common::{Scratch, assert_valid, define_minimum, empty_location};
use otf2_sys::{
    Archive, AttributeRef, AttributeValue, Error, LocationGroupRef, LocationGroupType, MetricRef,
    Options, RegionRef, Result, SystemTreeNodeRef,
};

const READ: RegionRef = RegionRef::new(0);

/// An archive with one event.
fn write_one(dir: &Scratch, time: u64) -> Result<()> {
    let mut archive = dir.archive()?;
    let mut writer = archive.event_writer()?;
    writer.enter(time, READ, &[])?;
    let location = writer.location();
    archive.close_event_writer(writer)?;
    archive.finish(|defs| define_minimum(defs, &[location]))
}

/// All files below a directory with their contents.
fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("list").map(|entry| entry.expect("list").path()) {
        if entry.is_dir() {
            found.extend(contents(&entry));
        } else {
            found.push((entry.display().to_string(), fs::read(&entry).expect("read")));
        }
    }
    found.sort();
    found
}

#[test]
fn an_existing_archive_is_left_alone() -> Result<()> {
    let dir = Scratch::new("existing");
    write_one(&dir, 1)?;
    let before = contents(dir.path());
    assert!(matches!(dir.archive(), Err(Error::Exists(_))));
    assert!(before == contents(dir.path()), "something was written");
    Ok(())
}

#[test]
fn any_part_of_an_archive_counts() {
    for part in ["traces.otf2", "traces.def", "traces"] {
        let dir = Scratch::new("part");
        let path = dir.path().join(part);
        std::os::unix::fs::symlink("/nowhere", &path).expect("make a dangling link");
        assert_eq!(dir.archive().err(), Some(Error::Exists(path)));
    }
}

#[test]
fn two_archives_share_a_directory() -> Result<()> {
    let dir = Scratch::new("two");
    write_one(&dir, 1)?;
    let mut other = Archive::create(dir.path(), "other", Options::default())?;
    let location = empty_location(&mut other)?;
    other.finish(|defs| define_minimum(defs, &[location]))?;
    assert_valid(&dir.path().join("traces.otf2"));
    assert_valid(&dir.path().join("other.otf2"));
    Ok(())
}

#[test]
fn impossible_names_are_refused() {
    let dir = Scratch::new("names");
    for name in ["", "a/b", ".", "..", "a\0b"] {
        let archive = Archive::create(dir.path(), name, Options::default());
        assert_eq!(archive.err(), Some(Error::ArchiveName(name.into())));
    }
}

#[test]
fn times_that_go_back_are_moved_and_counted() -> Result<()> {
    let dir = Scratch::new("clamp");
    let mut archive = dir.archive()?;
    let mut writer = archive.event_writer()?;
    for time in [100, 90, 100, 120, 119, u64::MAX - 1, 5] {
        writer.enter(time, READ, &[])?;
    }
    assert_eq!((writer.clamped(), writer.last_time()), (3, u64::MAX - 1));
    let location = writer.location();
    assert_eq!(archive.close_event_writer(writer)?, 7);
    archive.finish(|defs| define_minimum(defs, &[location]))?;
    assert_valid(&dir.path().join("traces.otf2"));
    Ok(())
}

#[test]
fn refused_event_changes_nothing() -> Result<()> {
    let dir = Scratch::new("refused");
    let mut archive = dir.archive()?;
    let mut writer = archive.event_writer()?;
    let twice = [(AttributeRef::new(0), AttributeValue::Uint32(1)); 2];
    assert!(matches!(writer.enter(10, READ, &twice), Err(Error::Library(_))));
    let many = [(AttributeRef::new(0), AttributeValue::Uint32(1)); 256];
    assert!(matches!(writer.enter(10, READ, &many), Err(Error::TooMany { given: 256, .. })));
    let metric = writer.metric(10, MetricRef::new(0), &[0; 256], &[]);
    assert!(matches!(metric, Err(Error::TooMany { given: 256, .. })));
    writer.enter(5, READ, &[])?;
    assert_eq!((writer.clamped(), writer.last_time()), (0, 5));
    let location = writer.location();
    assert_eq!(archive.close_event_writer(writer)?, 1);
    archive.finish(|defs| define_minimum(defs, &[location]))?;
    assert_valid(&dir.path().join("traces.otf2"));
    Ok(())
}

#[test]
fn definitions_are_checked() -> Result<()> {
    let dir = Scratch::new("checked");
    let mut archive = dir.archive()?;
    let mut foreign = Scratch::new("foreign").archive()?;
    for text in ["a", "b", "c"] {
        foreign.intern(text)?;
    }
    let dangling = foreign.intern("d")?;
    let text = archive.intern("text")?;
    assert_eq!(archive.set_property("NOSPACE", "x"), Err(Error::PropertyName("NOSPACE".into())));
    let finished = archive.finish(|defs| {
        let (node, group) = (SystemTreeNodeRef::new(0), LocationGroupRef::new(0));
        assert_eq!(
            defs.system_tree_node(node, dangling, text, None),
            Err(Error::Dangling { kind: "string", id: 3 })
        );
        assert_eq!(
            defs.location_group(group, text, LocationGroupType::PROCESS, node, None),
            Err(Error::Dangling { kind: "system tree node", id: 0 })
        );
        assert_eq!(
            defs.system_tree_node(SystemTreeNodeRef::new(1), text, text, None),
            Err(Error::NotDense { kind: "system tree node", given: 1, expected: 0 })
        );
        defs.system_tree_node(node, text, text, None)
    });
    assert_eq!(finished, Err(Error::NoClock));
    Ok(())
}

#[test]
fn the_clock_must_cover_the_events() -> Result<()> {
    let dir = Scratch::new("clock");
    let mut archive = dir.archive()?;
    let mut writer = archive.event_writer()?;
    writer.enter(10, READ, &[])?;
    writer.leave(20, READ, &[])?;
    archive.close_event_writer(writer)?;
    let finished = archive.finish(|defs| {
        let wrong = Err(Error::ClockRange { first: 10, last: 20 });
        assert_eq!(defs.clock_properties(1, 11, 100, None), wrong);
        assert_eq!(defs.clock_properties(1, 10, 9, None), wrong);
        defs.clock_properties(1, 10, 10, None)
    });
    assert_eq!(finished, Err(Error::LocationUndefined(0)));
    Ok(())
}

#[test]
fn an_unfinished_archive_has_no_anchor() -> Result<()> {
    let dir = Scratch::new("unfinished");
    let mut archive = dir.archive()?;
    let mut writer = archive.event_writer()?;
    writer.enter(1, READ, &[])?;
    // The writer outlives the archive: its events are dropped.
    drop(archive);
    assert_eq!(writer.leave(2, READ, &[]), Err(Error::Abandoned));
    drop(writer);
    assert!(!dir.path().join("traces.otf2").exists());
    Ok(())
}

#[test]
fn finishing_needs_closed_writers() -> Result<()> {
    let dir = Scratch::new("open");
    let mut archive = dir.archive()?;
    let mut writer = archive.event_writer()?;
    writer.enter(1, READ, &[])?;
    let finished = archive.finish(|_| Ok(()));
    assert_eq!(finished, Err(Error::WritersOpen(1)));
    drop(writer);
    assert!(!dir.path().join("traces.otf2").exists());
    Ok(())
}

#[test]
fn a_dropped_writer_is_closed_and_counted() -> Result<()> {
    let dir = Scratch::new("dropped");
    let mut archive = dir.archive()?;
    let mut writer = archive.event_writer()?;
    writer.enter(1, READ, &[])?;
    let location = writer.location();
    drop(writer);
    archive.finish(|defs| {
        assert_eq!(defs.events(location), 1);
        define_minimum(defs, &[location])
    })?;
    assert_valid(&dir.path().join("traces.otf2"));
    Ok(())
}

#[test]
fn a_writer_of_another_archive_is_refused() -> Result<()> {
    let (dir, other) = (Scratch::new("own"), Scratch::new("other"));
    let (mut archive, mut owner) = (dir.archive()?, other.archive()?);
    let writer = owner.event_writer()?;
    assert_eq!(archive.close_event_writer(writer), Err(Error::ForeignWriter));
    Ok(())
}

#[test]
fn an_archive_without_locations_is_refused() -> Result<()> {
    let dir = Scratch::new("nothing");
    let finished = dir.archive()?.finish(|defs| define_minimum(defs, &[]));
    assert_eq!(finished, Err(Error::NoLocation));
    Ok(())
}

#[test]
fn long_and_odd_strings_do_no_harm() -> Result<()> {
    let dir = Scratch::new("strings");
    let mut archive = dir.archive()?;
    archive.intern(&"long ".repeat(1 << 20))?;
    archive.intern("a\0b\u{1}\u{fffd}")?;
    assert_eq!(archive.strings_cut(), 1);
    let location = empty_location(&mut archive)?;
    archive.finish(|defs| define_minimum(defs, &[location]))?;
    assert_valid(&dir.path().join("traces.otf2"));
    Ok(())
}

#[test]
fn too_much_text_for_the_anchor_is_refused() -> Result<()> {
    let dir = Scratch::new("anchor");
    let mut archive = dir.archive()?;
    let text = "x".repeat(60_000);
    let mut refused = 0;
    for number in 0..5 {
        match archive.set_property(&format!("TEST::P{number}"), &text) {
            Ok(()) => {}
            Err(Error::AnchorFull(_)) => refused += 1,
            Err(error) => return Err(error),
        }
    }
    assert_eq!(refused, 2);
    let location = empty_location(&mut archive)?;
    archive.finish(|defs| define_minimum(defs, &[location]))?;
    assert_valid(&dir.path().join("traces.otf2"));
    Ok(())
}
