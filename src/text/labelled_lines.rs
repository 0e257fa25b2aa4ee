//! Lines of the captures of a job in one output: each has the host and rank of its capture.

use std::io::{self, Write};

use super::escape;
use super::table::Separator;

/// Form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelledForm {
    /// Lines for people, which stay as they are.
    Text,
    /// JSON objects, which get the members `host` and `rank` first.
    Json,
    /// Values, which get the columns `host` and `rank` first. The names of the fields come once.
    Separated(Separator),
}

/// Writer of the lines of one capture after the other.
#[derive(Debug)]
pub struct LabelledLines<W> {
    form: LabelledForm,
    /// Beginning of each line.
    label: Vec<u8>,
    /// True if the names of the fields were written.
    has_names: bool,
    /// True if the line is that of the names of the fields.
    is_names: bool,
    is_line_start: bool,
    out: W,
}

impl<W: Write> LabelledLines<W> {
    /// Creates the writer.
    pub fn new(form: LabelledForm, out: W) -> Self {
        let (label, has_names, is_names) = Default::default();
        Self { form, label, has_names, is_names, is_line_start: true, out }
    }

    /// Begins the lines of a capture.
    pub fn begin(&mut self, host: &str, rank: Option<u64>) {
        self.is_line_start = true;
        self.is_names = matches!(self.form, LabelledForm::Separated(_));
        let rank = rank.map(|rank| rank.to_string());
        let mut label = Vec::new();
        match self.form {
            LabelledForm::Text => {}
            LabelledForm::Json => {
                label.extend_from_slice(b"{\"host\":");
                escape::json_string(&mut label, host);
                label.extend(format!(",\"rank\":{},", rank.as_deref().unwrap_or("null")).bytes());
            }
            LabelledForm::Separated(separator) => {
                match separator {
                    Separator::Comma => escape::csv(&mut label, host.as_bytes()),
                    Separator::Tab => escape::shown(&mut label, host.as_bytes(), b""),
                }
                label.push(separator.byte());
                label.extend(rank.unwrap_or_default().bytes());
                label.push(separator.byte());
            }
        }
        self.label = label;
    }

    /// Writes the beginning of a line; returns what is left of it.
    fn start<'a>(&mut self, line: &'a [u8]) -> io::Result<&'a [u8]> {
        match self.form {
            LabelledForm::Text => {}
            LabelledForm::Separated(separator) if self.is_names => {
                if !self.has_names {
                    let names = format!("host{0}rank{0}", char::from(separator.byte()));
                    self.out.write_all(names.as_bytes())?;
                }
            }
            LabelledForm::Separated(_) => self.out.write_all(&self.label)?,
            LabelledForm::Json => {
                if let Some(rest) = line.strip_prefix(b"{") {
                    self.out.write_all(&self.label)?;
                    return Ok(rest);
                }
            }
        }
        Ok(line)
    }
}

impl<W: Write> Write for LabelledLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let rest = if self.is_line_start { self.start(line)? } else { line };
            if !(self.is_names && self.has_names) {
                self.out.write_all(rest)?;
            }
            self.is_line_start = line.ends_with(b"\n");
            if self.is_line_start && self.is_names {
                (self.is_names, self.has_names) = (false, true);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the output of the lines of two captures, in writes of this length.
    fn written(form: LabelledForm, text: &str, length: usize) -> String {
        let mut lines = LabelledLines::new(form, Vec::new());
        for (host, rank) in [("a,\"", Some(3)), ("b", None)] {
            lines.begin(host, rank);
            text.as_bytes().chunks(length).for_each(|part| lines.write_all(part).expect("memory"));
        }
        String::from_utf8(lines.out).expect("text")
    }

    #[test]
    fn each_line_has_its_host_whatever_the_writes_are() {
        for length in [1, 3, 100] {
            let json = written(LabelledForm::Json, "{\"a\":1}\n{\"a\":2}\n", length);
            let expected = "{\"host\":\"a,\\\"\",\"rank\":3,\"a\":1}\n\
                            {\"host\":\"a,\\\"\",\"rank\":3,\"a\":2}\n\
                            {\"host\":\"b\",\"rank\":null,\"a\":1}\n\
                            {\"host\":\"b\",\"rank\":null,\"a\":2}\n";
            assert_eq!(json, expected, "{length}");
            let tabs = LabelledForm::Separated(Separator::Tab);
            let rows = "host\trank\tx\na,\"\t3\t1\nb\t\t1\n";
            assert_eq!(written(tabs, "x\n1\n", length), rows, "{length}");
            assert_eq!(written(LabelledForm::Text, "x\n", length), "x\nx\n");
        }
    }
}
