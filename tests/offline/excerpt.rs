//! A log that is a part of a longer recording is read by every verb, which say so.

use std::path::{Path, PathBuf};

use iotrace_perf::capture::excerpt::{Excerpt, FiredTrigger};
use iotrace_perf::capture::fact::{Fact, FactsFrame, Text};
use iotrace_perf::capture::format::FrameKind;
use iotrace_perf::capture::header::{End, Header};
use iotrace_perf::capture::trailing_facts;
use iotrace_perf::units::{KernelTime, Pid};
use serde_json::Value;

use crate::support::driver::process;
use crate::support::log_copy::{copy_frames, replace_header};
use crate::support::scratch_dir;
use crate::support::text;

/// Writes a recorded log as the ring of a recorder would: its frames as they are, between another
/// header and another end.
fn excerpt_of(name: &str, into: &Path) -> PathBuf {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs").join(name);
    let bytes = std::fs::File::open(&corpus).expect(name);
    let end = trailing_facts::end(bytes).expect("memory").expect("an end");
    let log = into.join("part.iocap");
    let mut writer = copy_frames(&corpus, &log, |writer, frame, payload| {
        if !replace_header(writer, frame, payload, make_excerpt) {
            return frame.kind == FrameKind::END;
        }
        let (time, which, text) = (KernelTime(frame.first_time), Text::SEGMENT, b"4711".to_vec());
        let mut marker = FactsFrame::default();
        marker.push(&Fact::Text { time, which, pid: Pid(0), text });
        writer.facts(time, &mut marker).expect("space");
        true
    });
    let end = End { end_ns: end.end_ns, reason: "incident".into(), ..End::default() };
    writer.json(FrameKind::END, KernelTime(end.end_ns), &end).expect("space");
    log
}

/// Makes the header that of a part, which a trigger has cut out.
fn make_excerpt(header: &mut Header) {
    let start = header.clock.start_ns;
    let fired = FiredTrigger {
        trigger: "fsync>200ms".into(),
        time_ns: start + 1_000_000_000,
        value: 412_000_000,
        unit: "ns".into(),
        subject: "fsync".into(),
        pid: Some(4711),
        tid: Some(4712),
        comm: "dd".into(),
        path: Some("/srv/a".into()),
        is_running: false,
    };
    header.excerpt = Some(Excerpt {
        number: 7,
        reason: "incident".into(),
        ring: "30.0 s".into(),
        recording_start_ns: start - 5_000_000_000,
        mode: "launch".into(),
        command: vec!["tar".into()],
        triggers: vec![fired],
        triggers_left_out: 3,
        unevaluated_ns: 7_000_000,
    });
}

#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let mut command = process::iotrace_perf(env!("CARGO_BIN_EXE_iotrace-perf"), arguments);
    let finished = process::run(&mut command, std::time::Duration::from_secs(120));
    finished.expect("it ends").success().stdout()
}

#[test]
fn part_of_a_recording_is_read_by_every_verb() {
    let dir = scratch_dir("excerpt");
    let log = excerpt_of("v2/attached.iocap", dir.path());
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs/v2/excerpt.iocap");
    if std::env::var_os("UPDATE_EXPECT").is_some() && !corpus.exists() {
        std::fs::copy(&log, &corpus).expect("space");
    }
    let log = text(&log);
    let info = printed(&["info", log]);
    for line in [
        "part 7 of a recording of tar: what its ring of 30.0 s held",
        "the 5.00 s before are not in it",
        "trigger fsync>200ms: 412 ms, fsync by dd 4711 on /srv/a, 1.00 s after its beginning",
    ] {
        assert!(info.contains(line), "{line}: {info}");
    }
    let json: Value = serde_json::from_str(&printed(&["info", "--json", log])).expect("JSON");
    assert_eq!((&json["lost"], &json["end_reason"]), (&0.into(), &"incident".into()));
    assert_eq!(json["excerpt"]["triggers"][0]["trigger"], "fsync>200ms");
    assert_eq!(json["operations"], 12);
    for verb in ["summary", "files", "disk", "cache", "slow", "latency", "pattern", "script"] {
        printed(&[verb, log]);
    }
    let archive = dir.path().join("a.otf2");
    printed(&["convert", log, "-o", text(&archive)]);
    assert!(archive.exists());
}
