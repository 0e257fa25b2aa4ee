//! Lines about a log that is a part of a longer recording.

use crate::capture::header::{Excerpt, FiredTrigger};
use crate::text::quantity::{counted, time};
use crate::units::KernelTime;

/// Number of triggers that are shown one by one.
const SHOWN: usize = 5;

/// Returns what the log is a part of, and the triggers for which it was written.
pub(super) fn lines(excerpt: &Excerpt, start: KernelTime) -> Vec<String> {
    let before = start.0.saturating_sub(excerpt.recording_start_ns);
    let of = match (excerpt.command.first(), excerpt.mode.as_str()) {
        (Some(program), _) => format!("a recording of {program}"),
        (None, "system") => "a recording of the machine".to_owned(),
        _ => "a recording".to_owned(),
    };
    let what = match excerpt.ring.as_str() {
        "" => "one of its logs".to_owned(),
        ring => format!("what its ring of {ring} held"),
    };
    let mut lines = vec![format!("part {} of {of}: {what}", excerpt.number)];
    if before > 0 {
        lines.push(format!(
            "the {} before are not in it: processes and open files are known from a snapshot at its beginning",
            time(before)
        ));
    }
    lines.extend(excerpt.triggers.iter().take(SHOWN).map(|fired| {
        let after = fired.time_ns.saturating_sub(start.0);
        format!("trigger {}, {} after its beginning", described(fired), time(after))
    }));
    let listed = excerpt.triggers.len().saturating_sub(SHOWN) as u64;
    let more = listed.saturating_add(excerpt.triggers_left_out);
    lines.extend((more > 0).then(|| format!("{} more", counted(more, "trigger"))));
    lines.extend((excerpt.unevaluated_ns > 0).then(|| {
        format!("triggers were not evaluated for {} of the recording", time(excerpt.unevaluated_ns))
    }));
    lines
}

/// Returns what fired, for people: the value, the operation and its thread.
pub(super) fn described(fired: &FiredTrigger) -> String {
    let value = match fired.unit.as_str() {
        "ns" => time(fired.value),
        "records" => counted(fired.value, "record"),
        "operations" => counted(fired.value, "operation"),
        _ => return fired.trigger.clone(),
    };
    let so_far = if fired.is_running { " so far" } else { "" };
    let mut text = format!("{}: {value}{so_far}", fired.trigger);
    if !fired.subject.is_empty() {
        text += &format!(", {}", fired.subject);
    }
    if let Some(pid) = fired.pid {
        text += &format!(" by {} {pid}", fired.comm);
    }
    if let Some(path) = &fired.path {
        text += &format!(" on {path}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_and_its_triggers_are_named() {
        let fired = FiredTrigger {
            trigger: "fsync>200ms".into(),
            time_ns: 61_000_000_000,
            value: 412_000_000,
            unit: "ns".into(),
            subject: "fsync".into(),
            pid: Some(4711),
            comm: "dd".into(),
            path: Some("/srv/a".into()),
            is_running: true,
            ..FiredTrigger::default()
        };
        let by_hand = FiredTrigger { trigger: "SIGUSR2".into(), ..fired.clone() };
        let excerpt = Excerpt {
            number: 3,
            ring: "30.0 s".into(),
            recording_start_ns: 1_000_000_000,
            mode: "system".into(),
            triggers: vec![fired, FiredTrigger { unit: String::new(), ..by_hand }],
            triggers_left_out: 7,
            ..Excerpt::default()
        };
        let lines = lines(&excerpt, KernelTime(31_000_000_000));
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert_eq!(lines[0], "part 3 of a recording of the machine: what its ring of 30.0 s held");
        assert!(lines[1].starts_with("the 30.0 s before are not in it"), "{}", lines[1]);
        assert_eq!(
            lines[2],
            "trigger fsync>200ms: 412 ms so far, fsync by dd 4711 on /srv/a, 30.0 s after its beginning"
        );
        assert_eq!(lines[3], "trigger SIGUSR2, 30.0 s after its beginning");
        assert_eq!(lines[4], "7 triggers more");
    }
}
