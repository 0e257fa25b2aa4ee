//! Parser of an argument's text: numbers, names, paths of descriptors, lists.

/// Text after a number that is a descriptor: `3</tmp/x>`, `AT_FDCWD</tmp>`.
pub(super) type Decoration<'a> = &'a [u8];

/// Splits arguments at the commas between them. Begins after the `(`; returns them and the text
/// after the `)`.
pub(super) fn arguments(text: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let (mut found, mut start) = (Vec::new(), 0);
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at = string_end(text, at)?,
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                push(&mut found, text.get(start..at)?);
                return Some((found, text.get(at + 1..)?));
            }
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b'<' if opens_decoration(text, at) => at = decoration_end(text, at)?,
            b'/' if text.get(at + 1) == Some(&b'*') => at = comment_end(text, at)?,
            b',' if depth == 0 => {
                push(&mut found, text.get(start..at)?);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Arguments of a call without a printed end, as far as they are complete.
pub(super) fn begun(text: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(end) = item_end(rest) {
        push(&mut found, rest.get(..end).unwrap_or_default());
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    found
}

/// Position of the next comma outside of strings and brackets.
fn item_end(text: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at = string_end(text, at)?,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b'<' if opens_decoration(text, at) => at = decoration_end(text, at)?,
            b'/' if text.get(at + 1) == Some(&b'*') => at = comment_end(text, at)?,
            b',' if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

fn push<'a>(found: &mut Vec<&'a [u8]>, item: &'a [u8]) {
    let item = item.trim_ascii();
    if !item.is_empty() || !found.is_empty() {
        found.push(item);
    }
}

/// Splits `[a, b]` or `{a, b}` into elements.
pub(super) fn elements(list: &[u8]) -> Vec<&[u8]> {
    let inner = list.get(1..list.len().saturating_sub(1)).unwrap_or_default();
    let mut found = Vec::new();
    let mut rest = inner;
    while let Some(end) = item_end(rest) {
        push(&mut found, rest.get(..end).unwrap_or_default());
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    push(&mut found, rest);
    found
}

/// Position of the quote that ends the string that begins here.
fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// End of a comment such as `/* 35 vars */`
fn comment_end(text: &[u8], start: usize) -> Option<usize> {
    let rest = text.get(start + 2..)?;
    rest.windows(2).position(|window| window == b"*/").map(|at| start + 2 + at + 1)
}

/// True after a number or a constant's name, except for a shift (`21<<MAP_HUGE_SHIFT`).
fn opens_decoration(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|difference| text.get(difference));
    before.is_some_and(u8::is_ascii_alphanumeric) && text.get(at + 1) != Some(&b'<')
}

/// Position of the `>` that ends the decoration that begins here; it may contain others:
/// `</dev/null<char 1:3>>`, `<TCP:[127.0.0.1:1->127.0.0.1:2]>`.
fn decoration_end(text: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in text.iter().enumerate().skip(start) {
        match byte {
            b'<' => depth += 1,
            b'>' if text.get(at.wrapping_sub(1)) == Some(&b'-') => {}
            b'>' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Decoration of a number, if it has one.
pub(super) fn decoration(text: &[u8]) -> Option<Decoration<'_>> {
    let start =
        text.iter().position(|text| *text == b'<').filter(|at| opens_decoration(text, *at))?;
    text.get(start + 1..decoration_end(text, start)?)
}

/// True if text follows the decoration of a number: old versions of strace did not escape a `>` in
/// a name, which then seems to end there.
pub(super) fn is_cut_off(text: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    let Some(start) =
        text.iter().position(|text| !is_word(text)).filter(|at| text.get(*at) == Some(&b'<'))
    else {
        return false;
    };
    if !opens_decoration(text, start) {
        return false;
    }
    let Some(end) = decoration_end(text, start) else { return false };
    let rest = text.get(end + 1..).unwrap_or_default();
    let is_explained = rest.starts_with(b" ") && !rest.contains(&b'>');
    !(rest.is_empty() || rest == b"(deleted)" || is_explained)
}

/// Link of a descriptor, as `/proc/PID/fd` shows it. `-yy` appends the number of a device, and the
/// kernel's `(deleted)` may follow.
pub(super) fn link(text: &[u8]) -> Option<Vec<u8>> {
    let inside = decoration(text)?;
    let path = match inside.strip_suffix(b">") {
        Some(_) => inside.iter().rposition(|byte| *byte == b'<').and_then(|at| inside.get(..at))?,
        None => inside,
    };
    let mut path = unescaped(path);
    if text.ends_with(b">(deleted)") {
        path.extend_from_slice(b" (deleted)");
    }
    Some(path)
}

/// Parses a string in quotes; false if it is truncated.
pub(super) fn string(text: &[u8]) -> Option<(Vec<u8>, bool)> {
    if text.first() != Some(&b'"') {
        return None;
    }
    let end = string_end(text, 0)?;
    let is_whole = !text.get(end + 1..)?.starts_with(b"...");
    Some((unescaped(text.get(1..end)?), is_whole))
}

/// Original bytes of `\n`, `\12`, `\x0a`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'\\' {
            found.push(*first);
            continue;
        }
        let (byte, length) = escape(rest);
        found.extend(byte);
        rest = rest.get(length..).unwrap_or_default();
    }
    found
}

/// The byte of an escape sequence after its backslash, and the length of the sequence.
fn escape(rest: &[u8]) -> (Option<u8>, usize) {
    let digits = |from: usize, base: u32, most: usize| {
        let digits =
            rest.iter().skip(from).take(most).map_while(|rest| char::from(*rest).to_digit(base));
        let (value, count) =
            digits.fold((0, 0), |(value, count), it| (value * base + it, count + 1));
        (u8::try_from(value & 0xff).ok().filter(|_| count > 0), from + count)
    };
    match rest.first() {
        None => (None, 0),
        Some(b'0'..=b'7') => digits(0, 8, 3),
        Some(b'x') => digits(1, 16, 2),
        Some(b'n') => (Some(b'\n'), 1),
        Some(b't') => (Some(b'\t'), 1),
        Some(b'r') => (Some(b'\r'), 1),
        Some(b'v') => (Some(0x0b), 1),
        Some(b'f') => (Some(0x0c), 1),
        Some(b'a') => (Some(0x07), 1),
        Some(b'b') => (Some(0x08), 1),
        Some(other) => (Some(*other), 1),
    }
}

/// Parses a number as C writes it: decimal, octal, hexadecimal; negative ones as in a register.
/// Text after it is ignored.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (base, digits) = match digits {
        [b'0', b'x', rest @ ..] => (16, rest),
        [b'0', ..] => (8, digits),
        _ => (10, digits),
    };
    let end =
        digits.iter().position(|digit| !char::from(*digit).is_digit(base)).unwrap_or(digits.len());
    let digits = std::str::from_utf8(digits.get(..end)?).ok()?;
    let value = u64::from_str_radix(digits, base).ok()?;
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str], behind: &str) {
        let (found, rest) = arguments(text.as_bytes()).expect(text);
        let found: Vec<_> = found.iter().map(|found| String::from_utf8_lossy(found)).collect();
        assert_eq!(
            (found, rest),
            (expected.iter().map(|expected| (*expected).into()).collect(), behind.as_bytes())
        );
    }

    #[test]
    fn arguments_are_split_where_nothing_is_open() {
        check(")= 0", &[], "= 0");
        check("3</a, (b>, \"x,\\\")\"..., 5) = 5", &["3</a, (b>", "\"x,\\\")\"...", "5"], " = 5");
        check(
            "{a=[1, 2], b={c, d}}, 0x7 /* 35, vars */) = 0",
            &["{a=[1, 2], b={c, d}}", "0x7 /* 35, vars */"],
            " = 0",
        );
        check(
            "1</dev/null<char 1:3>>, 2<TCP:[1.2.3.4:5->6.7.8.9:1]>)",
            &["1</dev/null<char 1:3>>", "2<TCP:[1.2.3.4:5->6.7.8.9:1]>"],
            "",
        );
        check(
            "21<<MAP_HUGE_SHIFT, makedev(0x1, 0x3))",
            &["21<<MAP_HUGE_SHIFT", "makedev(0x1, 0x3)"],
            "",
        );
        assert_eq!(arguments(b"3, \"never"), None);
        assert_eq!(begun(b"3</a, b>, \"x\", half"), [&b"3</a, b>"[..], b"\"x\""]);
        assert_eq!(elements(b"[3<x>, {a, b}]"), [&b"3<x>"[..], b"{a, b}"]);
    }

    #[test]
    fn descriptors_and_strings_are_as_they_were() {
        assert_eq!(link(b"3</tmp/a\\74b\\76\\n\\\"\\\\>"), Some(b"/tmp/a<b>\n\"\\".to_vec()));
        assert_eq!(link(b"1</dev/null<char 1:3>>"), Some(b"/dev/null".to_vec()));
        assert_eq!(link(b"4</tmp/x>(deleted)"), Some(b"/tmp/x (deleted)".to_vec()));
        assert_eq!(link(b"4"), None);
        assert_eq!(string(b"\"a\\0b\\x7f\\1773\""), Some((b"a\0b\x7f\x7f3".to_vec(), true)));
        assert_eq!(string(b"\"abc\"..."), Some((b"abc".to_vec(), false)));
        assert_eq!(string(b"NULL"), None);
    }

    #[test]
    fn numbers_are_those_of_c() {
        let numbers = [
            "0644",
            "0",
            "-1",
            "0x10 /* 3 entries */",
            "18446744073709551615",
            "99999999999999999999",
            "",
            "x",
        ];
        assert_eq!(
            numbers.map(|digits| number(digits.as_bytes())),
            [Some(0o644), Some(0), Some(u64::MAX), Some(16), Some(u64::MAX), None, None, None]
        );
    }
}
