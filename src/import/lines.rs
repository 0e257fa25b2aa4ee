//! Lines of a text, both of any length.

use std::io::{self, BufRead, Read};

/// Limit on a line; longer ones are truncated, as no tool writes them.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// Reader of lines.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    input: R,
    line: Vec<u8>,
    /// Number of the last line, from 1.
    pub(super) number: u64,
}

impl<R: BufRead> LineReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0 }
    }

    /// Reads the next line, without its end. A line that is too long is truncated, and no parser
    /// understands it.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let limit = LINE_BYTES_MAX as u64;
        let read = self.input.by_ref().take(limit).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if read == LINE_BYTES_MAX {
            self.skip_rest()?;
        }
        Ok(Some(self.line.strip_suffix(b"\r").unwrap_or(&self.line)))
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.input.fill_buf()?;
            let (end, is_over) = match bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (bytes.len(), bytes.is_empty()),
            };
            self.input.consume(end);
            if is_over {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let long = vec![b'x'; 3 * LINE_BYTES_MAX];
        let text = [b"a\r\n\n", long.as_slice(), b"\nb"].concat();
        let mut lines = LineReader::new(text.as_slice());
        let mut lengths = Vec::new();
        while let Some(line) = lines.next().expect("memory") {
            lengths.push(line.len());
        }
        assert_eq!((lengths, lines.number), (vec![1, 0, LINE_BYTES_MAX, 1], 4));
    }
}
