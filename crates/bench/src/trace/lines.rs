//! Lines of an input as byte slices. No line is copied or allocated by itself.

use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, anyhow, ensure};

use super::input_file::open_input;

/// Bytes of a line that is always accepted. A longer line may be refused, and one of twice as many bytes is
/// refused, since the input is then no text.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// Most bytes of a file that is kept in memory as a whole.
const TEXT_BYTES_MAX: u64 = 1 << 26;

/// Why there is no next line.
#[derive(Debug)]
pub enum LineError {
    /// The line is longer than [`LINE_BYTES_MAX`].
    TooLong,
    /// The input cannot be read.
    Io(io::Error),
}

impl From<io::Error> for LineError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Splits an input at `\n` and at `\r\n`. The last line may lack its end.
pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// `buffer[start..end]` has been read and not yet returned.
    start: usize,
    end: usize,
    number: u64,
    at_end: bool,
}

impl<R: Read> Lines<R> {
    /// The lines of `input`.
    pub fn new(input: R) -> Self {
        Self { input, buffer: vec![0; 1 << 17], start: 0, end: 0, number: 0, at_end: false }
    }

    /// The number of the line that was returned last; the first is 1. 0 before the first.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end, `None` after the last.
    ///
    /// # Errors
    ///
    /// If the input cannot be read, or a line is longer than [`LINE_BYTES_MAX`].
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, LineError> {
        let mut searched = 0;
        let end = loop {
            if let Some(found) = self.buffer[self.start + searched..self.end].iter().position(|&b| b == b'\n')
            {
                break self.start + searched + found;
            }
            searched = self.end - self.start;
            if self.at_end {
                break self.end;
            }
            self.fill()?;
        };
        if self.at_end && self.start == self.end {
            return Ok(None);
        }
        let (line, has_end) = (self.start..end, end < self.end);
        if line.len() > LINE_BYTES_MAX {
            return Err(LineError::TooLong);
        }
        self.start = end + usize::from(has_end);
        self.number += 1;
        let line = &self.buffer[line];
        Ok(Some(if has_end { line.strip_suffix(b"\r").unwrap_or(line) } else { line }))
    }

    /// Reads more of the input into the buffer, behind the bytes that were not returned yet.
    #[cold]
    fn fill(&mut self) -> Result<(), LineError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            if self.end > LINE_BYTES_MAX {
                return Err(LineError::TooLong);
            }
            self.buffer.resize(2 * self.end, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(LineError::Io(error)),
            }
            return Ok(());
        }
    }
}

/// The text of a file that is kept in memory as a whole, such as a list of traces.
///
/// # Errors
///
/// If the file cannot be read, is longer than 64 MiB, or is not UTF-8. The message names the file and what is
/// `expected` in it, or the line that is no text.
pub fn read_text(path: &Path, expected: &str) -> anyhow::Result<String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    // The length is not asked for, because a device such as /dev/zero has none, and no end.
    open_input(path)
        .and_then(|file| file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes))
        .with_context(|| format!("{shown}: cannot be read, expected {expected}"))?;
    let is_short = bytes.len() as u64 <= TEXT_BYTES_MAX;
    ensure!(is_short, "{shown}: expected {expected} of at most {TEXT_BYTES_MAX} bytes, found more");
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        anyhow!("{shown}: line {line}: expected UTF-8 text, found bytes that are none")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An input that returns at most `most` bytes a call.
    struct Dribble<'a> {
        rest: &'a [u8],
        most: usize,
    }

    impl Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.rest.len().min(self.most).min(buffer.len());
            let (now, later) = self.rest.split_at(length);
            buffer[..length].copy_from_slice(now);
            self.rest = later;
            Ok(length)
        }
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_standard_library(text in "[a\r\n]{0,40}", most in 1_usize..9) {
            let mut lines = Lines::new(Dribble { rest: text.as_bytes(), most });
            let mut got = Vec::new();
            while let Some(line) = lines.next_line().unwrap() {
                got.push(String::from_utf8(line.to_vec()).unwrap());
                prop_assert_eq!(lines.number(), got.len() as u64);
            }
            prop_assert_eq!(got, text.lines().map(str::to_owned).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_line_may_be_longer_than_the_first_buffer_but_not_endless() {
        let long = vec![b'x'; 300_000];
        assert_eq!(Lines::new(&long[..]).next_line().unwrap().map(<[u8]>::len), Some(300_000));
        for (bytes, is_taken) in [(LINE_BYTES_MAX, true), (LINE_BYTES_MAX + 1, false)] {
            for end in ["", "\n"] {
                let line = [&vec![b'x'; bytes][..], end.as_bytes()].concat();
                assert_eq!(Lines::new(&line[..]).next_line().is_ok(), is_taken, "{bytes} bytes");
            }
        }
        let endless = io::repeat(b'x');
        assert!(matches!(Lines::new(endless).next_line(), Err(LineError::TooLong)));
    }
}
