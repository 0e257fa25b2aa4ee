//! Errors of the system in messages.

use std::io;

/// Begin of the number that the standard library adds to an error.
const NUMBER: &str = " (os error ";

/// Returns the text of an error without its number.
pub fn plain(error: &io::Error) -> String {
    without_numbers(&error.to_string())
}

/// Returns a text without the numbers of the errors in it.
pub fn without_numbers(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(NUMBER) {
        plain.push_str(before);
        let number = after.split_once(')').filter(|(number, _)| is_number(number));
        if number.is_none() {
            plain.push_str(NUMBER);
        }
        rest = number.map_or(after, |(_, rest)| rest);
    }
    plain.push_str(rest);
    plain
}

/// True for the digits of a number.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(plain(&error), "No such file or directory");
        let text = format!("a: {error}; b: {error}.");
        assert_eq!(
            without_numbers(&text),
            "a: No such file or directory; b: No such file or directory."
        );
        for text in ["a (os error x) b", "a (os error ", "", "a (b)"] {
            assert_eq!(without_numbers(text), text);
        }
    }
}
