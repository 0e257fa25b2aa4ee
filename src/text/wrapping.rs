//! Lines for a terminal of some width.

use textwrap::core::Word;
use textwrap::{Options, WordSeparator, WordSplitter};

/// Units that stay in the line of their number.
const UNITS: [&str; 17] = [
    "%", "B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "ns", "µs", "ms", "s", "min",
    "h", "d",
];

/// Returns a sentence in lines of this width, all but the first indented. Words, options and paths
/// that fit into a line stay whole, and so does a number with its unit. `None`: one line.
pub fn wrapped(sentence: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return sentence.to_owned() };
    let indent = sentence.len() - sentence.trim_start().len() + 2;
    let indent = " ".repeat(indent);
    let options = Options::new(width)
        .subsequent_indent(&indent)
        .word_separator(WordSeparator::Custom(words_and_quantities))
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(sentence, options)
}

/// Splits at spaces, but not between a number and its unit.
fn words_and_quantities(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(end_of_part(rest));
        words.push(Word::from(part));
        rest = after;
    }
    Box::new(words.into_iter())
}

/// Length of the first word of a text and the spaces after it, with its unit if it is a number.
fn end_of_part(text: &str) -> usize {
    let end_of_word = |text: &str| {
        let word = text.find(' ').unwrap_or(text.len());
        word + text[word..].len() - text[word..].trim_start_matches(' ').len()
    };
    let end = end_of_word(text);
    let after = &text[end..];
    let unit = after.split(' ').next().unwrap_or_default();
    let is_unit = UNITS.contains(&unit.trim_end_matches([',', '.', ';', ':', ')']));
    let is_number = text[..end].trim_end_matches(' ').ends_with(|last: char| last.is_ascii_digit());
    if is_number && is_unit { end + end_of_word(after) } else { end }
}

/// Returns a text whose lines are wrapped one by one.
pub fn wrapped_lines(text: &str, width: Option<usize>) -> String {
    text.lines().map(|line| wrapped(line, width) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stay_whole_and_later_lines_are_indented() {
        let text = "record again: --buffer-size 64M";
        assert_eq!(wrapped(text, Some(24)), "record again:\n  --buffer-size 64M");
        assert_eq!(wrapped(text, None), text);
        assert_eq!(wrapped_lines("a b\n  c d\n", Some(4)), "a b\n  c\n    d\n");
        assert_eq!(wrapped("/a-long/path", Some(8)), "/a-lon\n  g/path");
    }

    #[test]
    fn numbers_stay_in_the_line_of_their_unit() {
        assert_eq!(
            wrapped("reads wait 1.4 %, as before", Some(14)),
            "reads wait\n  1.4 %, as\n  before"
        );
        assert_eq!(wrapped("in all 52.8 MB", Some(12)), "in all\n  52.8 MB");
        assert_eq!(wrapped("  room for 8 files", Some(12)), "  room for 8\n    files");
        assert_eq!(wrapped("12 %", Some(4)), "12 %");
    }
}
