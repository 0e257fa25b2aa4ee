//! Parser of `format` files: text → [`EventFormat`].
//!
//! ```text
//! name: sys_enter_openat
//! ID: 782                                                  (may be missing)
//! format:
//! →field:unsigned short common_type;→offset:0;→size:2;→signed:0;
//!   ...                                                    (any number, also none)
//! ⏎
//! →field:int dfd;→offset:16;→size:8;→signed:0;             (`signed` may be missing)
//!   ...                                                    (any number, also none)
//! ⏎
//! print fmt: "dfd: 0x%08lx", ...                           (to the end of the text)
//! ```
//!
//! The parser takes exactly this form: a text that it took loosely could not be printed back
//! unchanged.

use super::error::{FormatError, FormatReason};
use super::field::Field;
use super::format::EventFormat;

impl EventFormat {
    /// Parses the content of a `format` file.
    ///
    /// # Errors
    ///
    /// When the text differs from a text that a kernel prints; the error names the first line that
    /// does.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let mut lines = Lines { rest: text, number: 0 };

        let name = lines.prefixed("name: ", "`name: ` and the event's name")?.to_owned();
        let id = match lines.optional("ID: ") {
            Some(text) => Some(lines.number("ID", text)?),
            None => None,
        };
        lines.exact("format:", "`format:`")?;

        let mut fields = lines.fields()?;
        let common_count = fields.len();
        fields.append(&mut lines.fields()?);

        let print_fmt = lines.remainder("print fmt: ", "`print fmt: `")?.to_owned();
        Ok(Self { name, id, fields, print_fmt, common_count })
    }
}

/// Part of the text that is not read yet.
struct Lines<'a> {
    rest: &'a str,
    /// Number of the line that was read last, from 1.
    number: usize,
}

impl<'a> Lines<'a> {
    /// Takes the next line and returns it without its newline.
    fn next(&mut self, expected: &'static str) -> Result<&'a str, FormatError> {
        self.number += 1;
        if self.rest.is_empty() {
            return Err(self.error(FormatReason::Expected(expected)));
        }
        let (line, rest) =
            self.rest.split_once('\n').ok_or_else(|| self.error(FormatReason::Truncated))?;
        self.rest = rest;
        Ok(line)
    }

    fn exact(&mut self, text: &str, expected: &'static str) -> Result<(), FormatError> {
        if self.next(expected)? == text {
            Ok(())
        } else {
            Err(self.error(FormatReason::Expected(expected)))
        }
    }

    /// Takes the next line, which starts with `prefix`, and returns the text after the prefix.
    fn prefixed(&mut self, prefix: &str, expected: &'static str) -> Result<&'a str, FormatError> {
        self.next(expected)?
            .strip_prefix(prefix)
            .filter(|text| !text.is_empty())
            .ok_or_else(|| self.error(FormatReason::Expected(expected)))
    }

    /// Takes the next line if it is complete and starts with `prefix`.
    fn optional(&mut self, prefix: &str) -> Option<&'a str> {
        let (line, rest) = self.rest.split_once('\n')?;
        let text = line.strip_prefix(prefix)?;
        self.number += 1;
        self.rest = rest;
        Some(text)
    }

    /// Takes the lines of one section of fields and the blank line after it.
    fn fields(&mut self) -> Result<Vec<Field>, FormatError> {
        const EXPECTED: &str = "a field, or the blank line that ends the fields";
        let mut fields = Vec::new();
        loop {
            let line = self.next(EXPECTED)?;
            if line.is_empty() {
                return Ok(fields);
            }
            let columns = line
                .strip_prefix("\tfield:")
                .ok_or_else(|| self.error(FormatReason::Expected(EXPECTED)))?;
            fields.push(self.field(columns)?);
        }
    }

    fn field(&self, columns: &str) -> Result<Field, FormatError> {
        let expected = |what| self.error(FormatReason::Expected(what));

        let (declaration, columns) =
            columns.split_once(";\toffset:").ok_or_else(|| expected("`;`, a tab and `offset:`"))?;
        let (offset, columns) =
            columns.split_once(";\tsize:").ok_or_else(|| expected("`;`, a tab and `size:`"))?;
        let (size, columns) =
            columns.split_once(';').ok_or_else(|| expected("`;` after the size"))?;
        let signed = match columns {
            "" => None,
            "\tsigned:0;" => Some(false),
            "\tsigned:1;" => Some(true),
            _ => return Err(expected("a tab and `signed:0;` or `signed:1;`")),
        };

        let offset = self.number("offset", offset)?;
        let size = self.number("size", size)?;
        Field::new(declaration, offset, size, signed)
            .ok_or_else(|| self.error(FormatReason::Declaration(declaration.to_owned())))
    }

    /// Takes the rest of the text, which may have several lines: the print formats of some kernels
    /// hold unescaped newlines (`ext4_fc_stats`).
    fn remainder(&mut self, prefix: &str, expected: &'static str) -> Result<&'a str, FormatError> {
        self.number += 1;
        let text = self
            .rest
            .strip_prefix(prefix)
            .ok_or_else(|| self.error(FormatReason::Expected(expected)))?;
        self.number += text.strip_suffix('\n').unwrap_or(text).matches('\n').count();
        text.strip_suffix('\n').ok_or_else(|| self.error(FormatReason::Truncated))
    }

    /// Parses a number as the kernel prints it: digits only, without leading zeros.
    fn number(&self, column: &'static str, text: &str) -> Result<u32, FormatError> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let canonical = digits && (text == "0" || !text.starts_with('0'));
        text.parse()
            .ok()
            .filter(|_| canonical)
            .ok_or_else(|| self.error(FormatReason::Number { column, text: text.to_owned() }))
    }

    fn error(&self, reason: FormatReason) -> FormatError {
        FormatError { line: self.number, reason }
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
