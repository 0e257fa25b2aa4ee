//! Lines for a terminal of some width.

use textwrap::{Options, WordSplitter};

/// Returns a sentence in lines of this width, all but the first indented. Words, options and paths
/// that fit into a line stay whole. `None`: one line.
pub fn wrapped(sentence: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return sentence.to_owned() };
    let indent = sentence.len() - sentence.trim_start().len() + 2;
    let indent = " ".repeat(indent);
    let options =
        Options::new(width).subsequent_indent(&indent).word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(sentence, options)
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
}
