//! Tests of the decode stage: data that waits, and its limits.

use super::*;
use crate::record::abi::{record_type, sample_type as bit};
use crate::units::Fd;

/// Output that keeps the messages.
#[derive(Default)]
struct MessageLog {
    times: Vec<u64>,
    late: usize,
}

impl StageOutput for MessageLog {
    type Error = PipelineError<std::convert::Infallible>;

    fn take(&mut self, passed: StageMessage) -> Result<(), Self::Error> {
        match passed {
            StageMessage::Event(event) => self.times.push(event.time.0),
            StageMessage::Anomaly(it) if it.kind == AnomalyKind::Late => self.late += 1,
            _ => {}
        }
        Ok(())
    }
}

fn front() -> DecodeStage {
    let sample_type = bit::TID | bit::TIME | bit::RAW;
    let layout = crate::capture::header::RecordLayout {
        source: "perf".into(),
        sample_type,
        ..Default::default()
    };
    let header = Header { layouts: vec![layout], ..Header::default() };
    DecodeStage::new::<std::convert::Infallible>(header).expect("a header")
}

/// A frame with the end of a thread at each of these times, repeatedly.
fn data(times: &[u64]) -> (FrameHeader, Vec<u8>) {
    let record = |time: &u64| {
        let head = [&record_type::EXIT.to_le_bytes()[..], &[0, 0, 48, 0]].concat();
        let tasks = [7_i32, 1, 8, 1].map(i32::to_le_bytes).concat();
        [head, tasks, time.to_le_bytes().into(), vec![0; 8], time.to_le_bytes().into()].concat()
    };
    let payload: Vec<u8> = times.iter().flat_map(record).collect();
    (FrameHeader::bare(FrameKind::DATA), payload)
}

#[test]
fn without_rounds_memory_has_an_end() {
    let mut front = front();
    front.waiting_bytes_max = 200;
    let mut messages = MessageLog::default();
    for (header, payload) in [data(&[3, 5, 7]), data(&[4, 9, 8])] {
        front.frame(&header, payload, &mut messages).expect("taken");
    }
    assert_eq!((front.buffered, front.buffers.len()), (0, 0));
    front.finish(&mut messages).expect("taken");
    assert_eq!((messages.times, messages.late), (vec![3, 5, 7, 8, 9], 1));
}

#[test]
fn descriptors_that_wait_for_a_round_have_an_end() {
    let mut front = front();
    front.waiting_bytes_max = 10_000;
    let mut messages = MessageLog::default();
    let mut most = 0;
    for fd in 0..500 {
        let (begin, end) = (KernelTime(4), KernelTime(5));
        let (pid, fd, flags, position) = (Pid(1), Fd(fd), 0, 0);
        let (shared, stat, link) = (false, None, b"/data".to_vec());
        let fact = Fact::Fd { begin, end, pid, fd, flags, position, shared, stat, link };
        front.fact(fact, &mut messages).expect("taken");
        most = most.max(front.buffered);
    }
    assert!((1..10_000).contains(&most), "{most}");
}

#[test]
fn texts_that_are_kept_have_an_end() {
    let mut front = front();
    front.text_bytes = TEXT_BYTES_MAX - 100;
    for _ in 0..3 {
        front.keep_text(Text::MOUNTINFO, Pid(0), vec![b'x'; 40]);
    }
    assert_eq!((front.summary.texts.len(), front.summary.beyond_bounds), (1, 2));
}
