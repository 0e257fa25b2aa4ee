//! Splits Rust text into code and prose, as far as the rules of `tidy.rs` need it: a word in a
//! comment or a string is not taken for one in the code.

/// A word or a single sign of the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The word, or one character.
    pub(crate) text: String,
    /// Line that it is on, from 1.
    pub(crate) line: usize,
}

/// Words and signs; strings and characters are left out, and so are comments.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let (code, _) = split(text);
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut word = String::new();
        for character in line.chars().chain([' ']) {
            if character.is_alphanumeric() || character == '_' {
                word.push(character);
                continue;
            }
            if !word.is_empty() {
                tokens.push(Token { text: std::mem::take(&mut word), line: number + 1 });
            }
            if !character.is_whitespace() {
                tokens.push(Token { text: character.into(), line: number + 1 });
            }
        }
    }
    tokens
}

/// Comments and strings, line by line. Strings without a space are left out: keys and names.
pub(crate) fn prose_lines(text: &str) -> Vec<String> {
    split(text).1.lines().map(str::to_owned).collect()
}

/// The code and the prose of a text, each with spaces for the other; line breaks stay in both.
fn split(text: &str) -> (String, String) {
    let mut code = String::with_capacity(text.len());
    let mut prose = String::with_capacity(text.len());
    let spaces = |text: &str| {
        let space = |letter| if letter == '\n' { '\n' } else { ' ' };
        text.chars().map(space).collect::<String>()
    };
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = foreign(rest, code.chars().next_back()).unwrap_or(0);
        let (part, after) = rest.split_at(if length == 0 { first.len_utf8() } else { length });
        rest = after;
        if length == 0 {
            code.push_str(part);
            prose.push_str(&spaces(part));
        } else {
            code.push_str(&spaces(part));
            let is_prose = part.starts_with('/') || part.contains(' ');
            prose.push_str(&if is_prose { part.to_owned() } else { spaces(part) });
        }
    }
    (code, prose)
}

/// Length in bytes of the comment, string or character that begins here, if one does.
fn foreign(rest: &str, before: Option<char>) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(rest.find("*/").map_or(rest.len(), |it| it + 2));
    }
    if rest.starts_with('"') {
        return Some(quoted(rest, '"'));
    }
    let in_word = before.is_some_and(|it| it.is_alphanumeric() || it == '_');
    if !in_word && let Some(raw) = rest.strip_prefix('r').or_else(|| rest.strip_prefix("br")) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = rest.len() - raw.len() + hashes + 1;
            return Some(rest[start..].find(&end).map_or(rest.len(), |it| start + it + end.len()));
        }
    }
    if let Some(quote) = rest.strip_prefix('\'') {
        let mut characters = quote.chars();
        let (first, second) = (characters.next(), characters.next());
        // Otherwise it is a lifetime.
        return (first == Some('\\') || second == Some('\'')).then(|| quoted(rest, '\''));
    }
    None
}

/// Length of a string that begins with this quote; a backslash escapes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            it if it == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::{prose_lines, tokens};

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let words: Vec<String> = tokens(text).into_iter().map(|it| it.text).collect();
        assert_eq!(words.join(" "), expected, "{text}");
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        check("use a::b; // c", "use a : : b ;");
        check("/* a\n b */ c", "c");
        check(r#"let a = "b \" c"; d"#, "let a = ; d");
        check("r#\"a \" b\"# c br\"d\" e", "c e");
        check("'a' 'b '\\'' c", "' b c");
        check("fn f<'a>(_: &'a str) {}", "fn f < ' a > ( _ : & ' a str ) { }");
        check("expr\"x\"", "expr");
    }

    #[test]
    fn lines_are_counted() {
        let lines: Vec<usize> =
            tokens("a\n\"x\ny\" b\n// c\nd").into_iter().map(|it| it.line).collect();
        assert_eq!(lines, [1, 3, 5]);
    }

    #[test]
    fn prose_is_comments_and_sentences() {
        let lines = prose_lines("a // b\n\"c d\" \"key\" 'e'\n/// f\ng");
        let trimmed: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        assert_eq!(trimmed, ["// b", "\"c d\"", "/// f", ""]);
    }
}
