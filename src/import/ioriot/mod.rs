//! Logs of I/O Riot (formerly ioreplay): its captures, and the replay logs that it generates from
//! those.
//!
//! A capture log has a line for each end of a call. A replay log has a line for each replayed
//! operation, and after `#INIT` the files that must exist. Replay logs are relative: times from the
//! first operation, numbers of processes and descriptors counted from 1, paths moved into a
//! directory of the replay, which is removed from them again.
//!
//! | Log | Version | Time |
//! |---|---|---|
//! | capture | 1, 2, or none given | ms, of the end; durations are not logged |
//! | capture | 3, 4 | ns, with durations |
//! | replay | 1 | ms |
//! | replay | 2 | ms or ns: not stated |
//! | replay | 3 | ns |

mod capture;
mod fields;
mod operation;
mod replay;
mod table;

pub(super) use capture::Capture;
pub(super) use replay::Replay;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::fields::MS;
    use super::*;
    use crate::import::import_report::ImportReport;
    use crate::import::imported_event::{ImportedEvent, ImportedKind};
    use crate::import::parser::Parser;

    fn parsed(mut parser: impl Parser, text: &str) -> (Vec<ImportedEvent>, ImportReport) {
        let (mut events, mut notes) = (Vec::new(), ImportReport::default());
        for (number, line) in (1..).zip(text.lines()) {
            notes.read += 1;
            if !parser.line(line.as_bytes(), &mut events, &mut notes) {
                notes.not_understood(number, line.as_bytes());
            }
        }
        parser.finish(&mut events, &mut notes);
        (events, notes)
    }

    #[test]
    fn times_have_the_unit_of_the_version() {
        let line = "t=1511381122062;:,i=7764:8093;:,o=read;:,d=162;:,b=12;:,\n";
        let (events, notes) = parsed(Capture::default(), line);
        assert_eq!(
            (events.len(), events[1].time, events[1].task.tid.0),
            (2, 1_511_381_122_062_000_000, 8093)
        );
        assert_eq!(notes.messages("")[0], "1 calls with an end but no duration");
        let line = "#|capture_version=4|\nt=1511381122062000500;:,D=400;:,i=1:1;:,o=close;:,d=3;:,s=-9;:,\nt=0\n";
        let (events, notes) = parsed(Capture::default(), line);
        assert_eq!(events.iter().map(|event| event.time % 1000).collect::<Vec<_>>(), [100, 500]);
        assert!(matches!(events[1].what, ImportedKind::Exit(_, -9, _)));
        assert_eq!(notes.unparsed(), 1);
    }

    #[test]
    fn a_replay_log_has_the_paths_and_times_of_the_capture() {
        let text = "#|replay_version=1|name=test0|init_offset=9|\n\
                    23|1|1|0|0|30|11|/mnt/.ioreplay/test0/a/x|438|0|open@31|\n\
                    25|1|1|0|0|10|11|12|read@33|\n#INIT\n0|1|688|/mnt/a|@5\n";
        let (events, notes) = parsed(Replay::new(text.as_bytes()), text);
        assert_eq!(
            events.iter().map(|event| event.time).collect::<Vec<_>>(),
            [23 * MS, 23 * MS, 25 * MS, 25 * MS]
        );
        let ImportedKind::Exit(_, 11, reads) = &events[1].what else { panic!("{:?}", events[1]) };
        assert_eq!(reads[0].bytes, b"/mnt/a/x");
        assert_eq!(notes.unparsed(), 0);
        let text = "#|replay_version=2|name=test0|\n0|1|1|0|0|61|1|0|fdatasync@3|\n999999999|1|1|0|0|61|1|0|fdatasync@3|\n";
        assert_eq!(parsed(Replay::new(text.as_bytes()), text).0[2].time, 999_999_999);
    }

    proptest! {
        /// Fails if a damaged line causes a panic.
        #[test]
        fn lines_may_be_damaged(lines in prop::collection::vec("(#\\||t=|9\\|)?([0-9a-zA-Z=|;:,@/-]|;:,|o=open|p=/x|i=1:1){0,40}", 0..20)) {
            let text = lines.join("\n");
            parsed(Capture::default(), &text);
            parsed(Replay::new(text.as_bytes()), &text);
        }
    }
}
