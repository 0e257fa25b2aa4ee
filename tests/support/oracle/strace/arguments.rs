//! The arguments of a call as strace writes them: split at the commas that separate them, strings
//! unescaped, descriptors with the path that `-y` puts after them.

/// Splits the text after `name(` into its arguments. Also gives the length up to the closing
/// parenthesis, or of the whole text if there is none (a call that was still open).
pub(crate) fn split_arguments(text: &str) -> (Vec<&str>, usize) {
    let bytes = text.as_bytes();
    let (mut arguments, mut start, mut at, mut depth) = (Vec::new(), 0, 0, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at),
            b'<' if is_annotation(bytes, at) => at = annotation_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at = text
                    .get(at..)
                    .and_then(|it| it.find("*/"))
                    .map_or(bytes.len(), |it| at + it + 1);
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => break,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                arguments.push(text.get(start..at).unwrap_or_default().trim());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    let end = at.min(bytes.len());
    let last = text.get(start..end).unwrap_or_default().trim();
    if !last.is_empty() || !arguments.is_empty() {
        arguments.push(last);
    }
    (arguments, end)
}

/// Position of the quote that ends the string that starts at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A `<` is that of `3</path>`, not of `1<<4` or `<unfinished ...>`.
fn is_annotation(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|it| bytes.get(it));
    let digit_or_name = before.is_some_and(u8::is_ascii_alphanumeric);
    digit_or_name && bytes.get(at + 1) != Some(&b'<')
}

/// Position of the `>` that ends the annotation that starts at `start`. strace escapes `<` and `>`
/// in names; its own are nested (`<char 1:3>`) or part of an arrow (`->`, of sockets).
fn annotation_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'<' => depth += 1,
            b'>' if at.checked_sub(1).and_then(|it| bytes.get(it)) == Some(&b'-') => {}
            b'>' => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// A number that may have a path: `3</path>`, `-1 EBADF`, `0x7f00`, `AT_FDCWD</tmp>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Annotated {
    /// The number; `None` for a name, a string or a structure.
    pub number: Option<i64>,
    /// The path after it, as `readlink` gives it.
    pub path: Option<Vec<u8>>,
}

impl Annotated {
    pub(crate) fn parse(text: &str) -> Self {
        let end = text.find(['<', ' ']).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        Self { number: integer(word), path: annotation(text, rest) }
    }
}

fn annotation(text: &str, rest: &str) -> Option<Vec<u8>> {
    let start = text.len() - rest.len();
    if !rest.starts_with('<') || !is_annotation(text.as_bytes(), start) {
        return None;
    }
    let end = annotation_end(text.as_bytes(), start);
    let inner = text.get(start + 1..end)?;
    // `-yy` adds the device: `/dev/null<char 1:3>`.
    let name = inner.split_once('<').map_or(inner, |(name, _)| name);
    let mut path = unescape(name);
    if text.get(end..)?.starts_with(">(deleted)") {
        path.extend_from_slice(b" (deleted)");
    }
    Some(path)
}

fn integer(word: &str) -> Option<i64> {
    if let Some(digits) = word.strip_prefix("0x") {
        // An address may have its highest bit set.
        return u64::from_str_radix(digits, 16).ok().map(u64::cast_signed);
    }
    let octal = word.len() > 1 && word.starts_with('0');
    if octal { i64::from_str_radix(word, 8).ok() } else { word.parse().ok() }
}

/// The bytes of a string argument (`"..."`, maybe cut: `"..."...`).
pub(crate) fn quoted(text: &str) -> Option<Vec<u8>> {
    let end = string_end(text.as_bytes(), 0);
    text.starts_with('"').then(|| unescape(text.get(1..end).unwrap_or_default()))
}

/// Undoes strace's escapes: `\n` and its like, `\ooo` (one to three digits), `\xNN`.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes().peekable();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(b'v') => out.push(0x0b),
            Some(b'f') => out.push(0x0c),
            Some(b'a') => out.push(0x07),
            Some(b'b') => out.push(0x08),
            Some(b'x') => out.push(digits(&mut bytes, 0, 16, 2)),
            Some(first @ b'0'..=b'7') => out.push(digits(&mut bytes, first - b'0', 8, 2)),
            Some(other) => out.push(other),
            None => out.push(b'\\'),
        }
    }
    out
}

/// Reads up to `most` digits more.
fn digits(
    bytes: &mut std::iter::Peekable<std::str::Bytes<'_>>,
    first: u8,
    radix: u8,
    most: usize,
) -> u8 {
    let mut value = first;
    for _ in 0..most {
        let digit = bytes.peek().and_then(|it| char::from(*it).to_digit(u32::from(radix)));
        let Some(digit) = digit.and_then(|it| u8::try_from(it).ok()) else { break };
        value = value.wrapping_mul(radix).wrapping_add(digit);
        bytes.next();
    }
    value
}
