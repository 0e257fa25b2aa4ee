use super::*;
use crate::capture::fact::{Ending, Text};
use crate::sys::patience::testing::{ended_by, endless};
use crate::tracer::code;

/// This test program as a helper.
#[test]
#[ignore = "run by a_stack_of_our_own_functions_leads_to_the_outermost_one"]
fn helper() {
    apart::answer().expect("somebody asks");
}

/// A helper that answers for the first two hits, and dies, be it of the third.
#[test]
#[ignore = "run by what_a_helper_did_not_survive_is_lost_and_told"]
fn dies() {
    use std::io::Write;
    helper::limit(&apart::BOUNDS).expect("we may");
    let (question, mut socket) = helper::asked().expect("somebody asks");
    let question = Question::decode(&question).expect("a question");
    let stacks = question.events.iter().filter(|it| matches!(it, Event::Stack(_)));
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
    let mut unwinding = Unwinding::new(&mut seen, DIES, apart::BOUNDS, endless());
    // Of the first process both, of the second two of three, of the third one and then one.
    let waiting =
        |times: &[u64]| Waiting { hits: times.iter().map(|it| hit(*it)).collect(), bytes: 0 };
    for (pid, times) in [(1, &[11, 10][..]), (2, &[10, 11, 12]), (3, &[10])] {
        unwinding.waiting.insert(Pid(pid), waiting(times));
    }
    unwinding.ask_all();
    // That it died of the second is not tried again.
    unwinding.waiting.insert(Pid(2), waiting(&[13, 14]));
    unwinding.waiting.insert(Pid(3), waiting(&[13]));
    unwinding.ask_all();
    let (facts, doubts) = unwinding.finish();
    let Some(Fact::Unwound(hits)) = facts.last() else { panic!("{facts:?}") };
    let hits: Vec<_> = hits.iter().map(|it| (it.time.0, it.stack)).collect();
    assert_eq!(hits, [(10, 0), (10, 1), (10, 2), (11, 0), (11, 1), (13, 2)]);
    assert_eq!(facts.len(), 4);
    let why = "it took too much memory, or is damaged (SIGABRT)";
    assert_eq!(doubts, [format!("3 stacks of programs were not unwound: {why}")]);
}

#[test]
fn what_nobody_waits_for_is_lost_and_told() {
    let mut seen = SeenChains::default();
    let mut unwinding = Unwinding::new(&mut seen, HELPER, apart::BOUNDS, ended_by(libc::SIGINT));
    for pid in [1, 2] {
        let hits = vec![hit(10), hit(11)];
        unwinding.waiting.insert(Pid(pid), Waiting { hits, bytes: 0 });
    }
    unwinding.ask_all();
    let why = "cancelled by a signal";
    let expected = vec![format!("4 stacks of programs were not unwound: {why}")];
    assert_eq!(unwinding.finish(), (Vec::new(), expected));
}

#[test]
fn no_more_than_there_is_room_for() {
    let mut seen = SeenChains::default();
    let mut unwinding = Unwinding::new(&mut seen, HELPER, apart::BOUNDS, endless());
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
    let mut unwinding = Unwinding::new(&mut seen, HELPER, apart::BOUNDS, endless());
    let hits = vec![Hit { time: KernelTime(9), tid: Tid(1), sampled }];
    unwinding.waiting.insert(pid, Waiting { hits, bytes: 0 });
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
    let changes = [(7, 10, "map /a"), (7, 20, "exec"), (7, 22, "map [vdso]"), (7, 30, "map /b")];
    seen.code = code::made(&changes);
    let unwinding = Unwinding::new(&mut seen, HELPER, apart::BOUNDS, endless());
    let question = unwinding.question(Pid(7), &[hit(15), hit(25)]);
    let shown = |it: &Event| match it {
        Event::Map(_, mapped) => format!("map {:?}", mapped.file),
        Event::Clear => "clear".into(),
        Event::Stack(_) => "stack".into(),
    };
    let shown: Vec<String> = question.events.iter().map(shown).collect();
    assert_eq!(shown, ["map Some(0)", "stack", "clear", "map None", "stack"]);
    let places: Vec<_> = question.files.iter().map(|it| it.mapped).collect();
    assert_eq!(places, [(0x1000, 0x2000)]);
}

/// Fails if hits of two processes that had the same number are asked as if they were of one.
#[test]
fn each_process_of_a_number_is_asked_about_for_itself() {
    const ONE: &[&str] = &["--exact", "tracer::unwinding::tests::one", "--ignored"];
    let mut seen = SeenChains::default();
    seen.code = code::made(&[(7, 10, "born 1"), (7, 20, "born 1"), (7, 21, "exec")]);
    let mut unwinding = Unwinding::new(&mut seen, ONE, apart::BOUNDS, endless());
    let hits = [25, 5, 15, 16, 20].map(hit).into();
    unwinding.waiting.insert(Pid(7), Waiting { hits, bytes: 0 });
    unwinding.ask_all();
    let (facts, doubts) = unwinding.finish();
    assert_eq!(doubts, Vec::<String>::new());
    // Its address is how many it was asked about.
    let told = facts.iter().filter_map(|it| match it {
        Fact::Stack(it) => Some(it.way.addresses[0]),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [1, 2]);
    let Some(Fact::Unwound(hits)) = facts.last() else { panic!("{facts:?}") };
    let hits: Vec<_> = hits.iter().map(|it| (it.time.0, it.stack)).collect();
    assert_eq!(hits, [(5, 0), (15, 1), (16, 1), (20, 1), (25, 1)]);
}

/// A helper that says of each hit how many it was asked about.
#[test]
#[ignore = "run by each_process_of_a_number_is_asked_about_for_itself"]
fn one() {
    use std::io::Write;
    let (question, mut socket) = helper::asked().expect("somebody asks");
    let question = Question::decode(&question).expect("a question");
    let stacks = question.events.iter().filter(|it| matches!(it, Event::Stack(_)));
    let count = stacks.count();
    let (addresses, ending) = ([count as u64].into(), Ending::Outermost);
    let way = question::encode_way(&Unwound { addresses, ending, is_guessed: false });
    socket.write_all(&way.repeat(count)).expect("somebody listens");
}
