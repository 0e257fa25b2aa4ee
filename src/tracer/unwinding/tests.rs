use super::*;
use crate::capture::fact::{Ending, Text};
use crate::tracer::code;

/// This test program as a helper.
#[test]
#[ignore = "run by a_stack_of_our_own_functions_leads_to_the_outermost_one"]
fn helper() {
    apart::answer().expect("somebody asks");
}

/// A helper that answers for the first two hits, and dies of the third.
#[test]
#[ignore = "run by what_a_helper_did_not_survive_is_lost_and_told"]
fn dies() {
    use std::io::Write;
    helper::limit(&apart::BOUNDS).expect("we may");
    let (question, mut socket) = helper::asked().expect("somebody asks");
    let question = Question::decode(&question).expect("a question");
    let stacks = question.processes.iter().flatten();
    let stacks = stacks.filter(|it| matches!(it, Event::Stack(_)));
    for _ in stacks.take(2) {
        let way = Unwound { addresses: [7].into(), ending: Ending::Outermost, is_guessed: false };
        socket.write_all(&question::encode_way(&way)).expect("somebody listens");
    }
    std::process::abort();
}

fn hit(time: u64) -> Hit {
    let sampled = Sampled { registers: Registers::default(), stack: Vec::new(), is_full: true };
    Hit { time: KernelTime(time), tid: Tid(1), sampled }
}

#[test]
fn what_a_helper_did_not_survive_is_lost_and_told() {
    const DIES: &[&str] = &["--exact", "tracer::unwinding::tests::dies", "--ignored"];
    let mut seen = SeenChains::default();
    let mut unwinding = Unwinding::new(&mut seen, DIES, apart::BOUNDS);
    // Of the first process both, of the second none, of the third again two of three, in another helper.
    for (pid, hits) in [(1, 2), (2, 1), (3, 3)] {
        unwinding.waiting.insert(Pid(pid), (0..hits).rev().map(|it| hit(10 + it)).collect());
    }
    unwinding.ask_all();
    let (facts, doubts) = unwinding.finish();
    let Some(Fact::Unwound(hits)) = facts.last() else { panic!("{facts:?}") };
    let hits: Vec<_> = hits.iter().map(|it| (it.time.0, it.stack)).collect();
    assert_eq!(hits, [(10, 0), (10, 1), (11, 0), (11, 1)]);
    assert_eq!(facts.len(), 3);
    let why = "it took too much memory, or is damaged (SIGABRT)";
    assert_eq!(doubts, [format!("2 stacks of programs were not unwound: {why}")]);
}

#[test]
fn no_more_than_there_is_room_for() {
    let mut seen = SeenChains::default();
    let mut unwinding = Unwinding::new(&mut seen, HELPER, apart::BOUNDS);
    let way = |address| Unwound {
        addresses: [address].into(),
        ending: Ending::Outermost,
        is_guessed: false,
    };
    unwinding.found(Pid(1), &hit(1), way(1));
    unwinding.words = WORDS_MAX;
    unwinding.found(Pid(1), &hit(2), way(2));
    unwinding.found(Pid(1), &hit(3), way(1));
    let (facts, doubts) = unwinding.finish();
    assert_eq!(facts.len(), 2);
    assert_eq!(
        doubts,
        ["1 stacks of programs were not unwound: there were too many different ones"]
    );
}

#[test]
fn a_stack_of_our_own_functions_leads_to_the_outermost_one() {
    let (sampled, expected) = walk::tests::called_at_their_beginnings();
    let mut seen = SeenChains::default();
    let text = std::fs::read("/proc/self/maps").expect("our own");
    let (pid, time) = (Pid(std::process::id().cast_signed()), KernelTime(5));
    seen.note_fact(&Fact::Text { time, which: Text::MAPS, pid, text });
    let mut unwinding = Unwinding::new(&mut seen, HELPER, apart::BOUNDS);
    unwinding.waiting.insert(pid, vec![Hit { time: KernelTime(9), tid: Tid(1), sampled }]);
    unwinding.ask_all();
    let (facts, doubts) = unwinding.finish();
    assert_eq!(doubts, Vec::<String>::new());
    let Some(Fact::Stack(stack)) = facts.first() else { panic!("{facts:?}") };
    let expected =
        Unwound { addresses: expected.into(), ending: Ending::Outermost, is_guessed: false };
    assert_eq!(stack.way, expected);
}

#[test]
fn a_history_is_told_before_what_came_later() {
    let mut seen = SeenChains::default();
    seen.code = code::made(&[(7, 10, "map /a"), (7, 20, "exec"), (7, 30, "map /b")]);
    let unwinding = Unwinding::new(&mut seen, HELPER, apart::BOUNDS);
    let question = unwinding.question(&[(Pid(7), vec![hit(15), hit(25)])]);
    let shown: Vec<&str> = question.processes[0]
        .iter()
        .map(|it| match it {
            Event::Map(..) => "map",
            Event::Clear => "clear",
            Event::Stack(_) => "stack",
        })
        .collect();
    assert_eq!(shown, ["map", "stack", "clear", "stack"]);
    let places: Vec<_> = question.files.iter().map(|it| it.places.clone()).collect();
    assert_eq!(places, [vec![(Pid(7), (0x1000, 0x2000))]]);
}
