//! Comparing printed lines with documented ones.

use super::ANY_LINES;

/// Lines with this many per cent of common words are the same line with other words.
const LIKENESS_MIN: usize = 50;

/// A line with `0` for each number, without the unit of a time or size, and with single spaces.
pub(crate) fn shape(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        let mut shaped = String::new();
        let mut letters = word.chars().peekable();
        while let Some(letter) = letters.next() {
            if !letter.is_ascii_digit() {
                shaped.push(letter);
                continue;
            }
            while letters.next_if(|next| next.is_ascii_digit() || *next == '.').is_some() {}
            shaped.push('0');
        }
        let is_unit =
            ["ns", "us", "µs", "ms", "s", "kB", "MB", "KiB", "MiB", "kB/s", "MB/s", "GB/s"]
                .contains(&shaped.trim_end_matches([',', ')']));
        let follows_number = words.last().is_some_and(|last: &String| last.ends_with('0'));
        if is_unit && follows_number {
            let end = shaped.trim_start_matches(char::is_alphabetic).to_owned();
            words.last_mut().expect("a number").push_str(&end);
        } else if !shaped.is_empty() && shaped.chars().all(|letter| letter == '-') {
            words.push("0".to_owned());
        } else {
            words.push(shaped);
        }
    }
    words.join(" ")
}

/// For each documented line its line of the output, in order, all of them used except at a
/// `…`; `None` if there is no such order.
pub(crate) fn aligned(
    documented: &[String],
    printed: &[String],
    equal: impl Fn(&str, &str) -> bool,
) -> Option<Vec<Option<usize>>> {
    let mut found = vec![None; documented.len()];
    let segments: Vec<(usize, &[String])> = {
        let mut start = 0;
        let mut all = Vec::new();
        for segment in documented.split(|line| line == ANY_LINES) {
            all.push((start, segment));
            start += segment.len() + 1;
        }
        all
    };
    let last = segments.len() - 1;
    let mut next = 0;
    for (index, (start, segment)) in segments.iter().enumerate() {
        let fits = |at: usize| {
            let end = at + segment.len();
            let is_placed = (index > 0 || at == 0) && (index < last || end == printed.len());
            end <= printed.len()
                && is_placed
                && segment.iter().zip(&printed[at..]).all(|(one, other)| equal(one, other))
        };
        let at = (next..=printed.len()).find(|at| fits(*at))?;
        for line in 0..segment.len() {
            found[start + line] = Some(at + line);
        }
        next = at + segment.len();
    }
    Some(found)
}

/// Words that two lines have in common, in per cent; numbers are equal to each other.
fn likeness(one: &str, other: &str) -> usize {
    let (one, other) = (shape(one), shape(other));
    let mut others: Vec<&str> = other.split(' ').collect();
    let all = one.split(' ').count() + others.len();
    let mut common = 0;
    for word in one.split(' ') {
        if let Some(place) = others.iter().position(|candidate| *candidate == word) {
            others.swap_remove(place);
            common += 1;
        }
    }
    200 * common / all
}

/// The printed line that is most like a documented one; `None` if none is like it.
pub(crate) fn most_alike<'a>(documented: &str, printed: &'a [String]) -> Option<&'a String> {
    let best = printed.iter().max_by_key(|line| likeness(documented, line))?;
    (likeness(documented, best) >= LIKENESS_MIN).then_some(best)
}

/// As [`aligned`], for documented lines of which some words have changed: each row of lines between
/// two `…` has its place where the printed lines are most like it.
pub(crate) fn alike(documented: &[String], printed: &[String]) -> Option<Vec<Option<usize>>> {
    let mut found = vec![None; documented.len()];
    let (mut start, mut next) = (0, 0);
    for segment in documented.split(|line| line == ANY_LINES) {
        let total = |at: &usize| -> usize {
            segment.iter().zip(&printed[*at..]).map(|(one, other)| likeness(one, other)).sum()
        };
        let last = printed.len().checked_sub(segment.len())?;
        // The first of equal ones.
        let at = (next..=last).rev().max_by_key(total)?;
        if total(&at) < LIKENESS_MIN * segment.len() {
            return None;
        }
        for line in 0..segment.len() {
            found[start + line] = Some(at + line);
        }
        start += segment.len() + 1;
        next = at + segment.len();
    }
    Some(found)
}

#[test]
fn outputs_are_compared_by_lines() {
    let lines = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
    let same = |documented: &str, printed: &str| {
        aligned(&lines(documented), &lines(printed), |one, other| one == other).is_some()
    };
    assert!(same("a|b", "a|b") && same("a|…|c", "a|b|b|c") && same("…|c|…", "a|c|d"));
    assert!(same("…|a", "a") && same("a|…|a", "a|b|a|a"));
    assert!(!same("a", "a|b") && !same("…|b", "b|a") && !same("a|…|c", "b|c") && !same("a|…", "b"));

    assert_eq!(shape("took  462 us, of (12.9 ms)"), shape("took 1.2 s, of (3 us)"));
    assert_eq!(shape("vda1[12/13] <0.004>"), shape("vda2[1/1] <1.0>"));
    assert_eq!(shape("a  -  3"), shape("a 0.1 -"));
    assert_ne!(shape("3 calls"), shape("3 opens"));

    let documented = lines("What matters: 3|a 1 us|…|took 3 us, as fast as possible");
    let printed = lines("Findings: 4|a 1 us|b|c|duration 30 us, as fast as possible");
    assert_eq!(alike(&documented, &printed), Some(vec![Some(0), Some(1), None, Some(4)]));
    assert_eq!(alike(&documented, &lines("x|y|z|took 3 us, as fast as possible")), None);
    assert_eq!(most_alike("took 3 us, as fast as possible", &printed), printed.last());
    assert_eq!(most_alike("nothing of this", &printed), None);
}
