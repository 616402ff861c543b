//! Streaming a trace from a file.

use std::ffi::OsStr;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use indicatif::ProgressBar;

use super::foreign::{self, ORACLE_RECORD_BYTES};
use super::lines::{LINE_BYTES_MAX, LineError, Lines};
use super::{Directive, FileRanges, Item, Place, Reference, TraceError, open_input, text};

/// The format of a trace file, before compression.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Input {
    /// This project's text format.
    Text,
    /// oracleGeneral, the binary format of libCacheSim.
    Oracle,
    /// Ranges of blocks, as the ARC paper's traces.
    Arc,
    /// One block a line, as the LIRS paper's traces.
    Lirs,
}

impl Input {
    /// The format that a file's name tells. Compression suffixes are ignored.
    pub fn of(path: &Path) -> Self {
        let name =
            stem(path).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if name.contains(".oracleGeneral") {
            return Self::Oracle;
        }
        match Path::new(&name).extension().and_then(OsStr::to_str) {
            Some("lis" | "arc") => Self::Arc,
            Some("trc" | "lirs") => Self::Lirs,
            _ => Self::Text,
        }
    }
}

/// The path without a compression suffix.
fn stem(path: &Path) -> PathBuf {
    match compression(path) {
        Some(_) => path.with_extension(""),
        None => path.to_owned(),
    }
}

fn compression(path: &Path) -> Option<&str> {
    path.extension().and_then(OsStr::to_str).filter(|extension| ["gz", "zst"].contains(extension))
}

/// Streams the steps of a trace file. Memory does not depend on the file's length.
///
/// For a text trace `NAME.ext[.gz|.zst]` with a file `NAME.files.tsv` beside it, the ranges in that file come
/// first, as [`Directive::File`] steps.
pub struct Reader {
    path: PathBuf,
    body: Body,
    /// Where the step that was returned last begins.
    place: Place,
    /// Steps from `NAME.files.tsv` that are still to be returned, in reverse order.
    files: Vec<Directive>,
}

type Decoder = Box<dyn Read + Send>;

enum Body {
    Text(Lines<Decoder>),
    Lirs(Lines<Decoder>),
    /// The blocks of the current line that are still to be returned: all but the last, and the last.
    Arc(Lines<Decoder>, std::ops::Range<u64>, Option<u64>),
    /// The input, and the offset of the next record in bytes.
    Oracle(BufReader<Decoder>, u64),
}

impl Reader {
    /// Opens a trace; `input` overrides what the name tells. `progress` advances with the bytes read.
    ///
    /// # Errors
    ///
    /// If the file, or a file `NAME.files.tsv` beside it, cannot be opened or the latter is malformed.
    pub fn open(path: &Path, input: Option<Input>, progress: &ProgressBar) -> Result<Self, TraceError> {
        let input = input.unwrap_or_else(|| Input::of(path));
        let file = open_input(path).map_err(|error| {
            TraceError::io(path, Place::File, "cannot be opened, expected a trace file", error)
        })?;
        let mut reader = Self::from_source(path, input, progress.wrap_read(file))?;
        if input == Input::Text {
            reader.files = files_beside(path)?;
        }
        Ok(reader)
    }

    /// Reads a trace from `source` as if it were the file `path`, whose name tells the compression.
    ///
    /// # Errors
    ///
    /// If there is no memory for a decoder.
    pub fn from_source(
        path: &Path,
        input: Input,
        source: impl Read + Send + 'static,
    ) -> Result<Self, TraceError> {
        let decoder = decoder(path, source)
            .map_err(|error| TraceError::io(path, Place::File, "cannot be decompressed", error))?;
        let body = match input {
            Input::Text => Body::Text(Lines::new(decoder)),
            Input::Lirs => Body::Lirs(Lines::new(decoder)),
            Input::Arc => Body::Arc(Lines::new(decoder), 0..0, None),
            Input::Oracle => Body::Oracle(BufReader::with_capacity(1 << 17, decoder), 0),
        };
        Ok(Self { path: path.to_owned(), body, place: Place::File, files: Vec::new() })
    }

    /// Where the step that was returned last stands: [`Place::File`] for one from `NAME.files.tsv`.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The path of the trace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next step, `None` at the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or decompressed, or what comes next is malformed.
    pub fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        if let Some(directive) = self.files.pop() {
            return Ok(Some(Item::Directive(directive)));
        }
        let step = match &mut self.body {
            Body::Text(lines) => next_text(lines, &mut self.place),
            Body::Lirs(lines) => next_lirs(lines, &mut self.place),
            Body::Arc(lines, range, last) => next_arc(lines, range, last, &mut self.place),
            Body::Oracle(input, offset) => next_oracle(input, offset, &mut self.place),
        };
        step.map_err(|wrong| match wrong {
            Wrong::Io(error) => {
                TraceError::io(&self.path, self.place, "cannot be read, expected an intact file", error)
            }
            Wrong::Format(expected) => TraceError::malformed(&self.path, self.place, expected),
        })
    }
}

enum Wrong {
    Io(io::Error),
    /// What was expected.
    Format(String),
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<LineError> for Wrong {
    fn from(error: LineError) -> Self {
        match error {
            LineError::Io(error) => Self::Io(error),
            LineError::TooLong => Self::Format(too_long()),
        }
    }
}

fn too_long() -> String {
    format!("a line of at most {LINE_BYTES_MAX} bytes")
}

/// The next line. `place` is set to where it stands, also if it cannot be read.
fn next_line<'a>(lines: &'a mut Lines<Decoder>, place: &mut Place) -> Result<Option<&'a [u8]>, Wrong> {
    let number = lines.number() + 1;
    let line = lines.next_line();
    if !matches!(line, Ok(None)) {
        *place = Place::Line(number);
    }
    Ok(line?)
}

/// An access whose site and tenant are not known.
fn anonymous(block: u64) -> Item {
    Item::Access(Reference { block, site: 0, tenant: 0 })
}

fn next_text(lines: &mut Lines<Decoder>, place: &mut Place) -> Result<Option<Item>, Wrong> {
    loop {
        let Some(line) = next_line(lines, place)? else { return Ok(None) };
        if let Some(item) = text::parse(line).map_err(Wrong::Format)? {
            return Ok(Some(item));
        }
    }
}

fn next_lirs(lines: &mut Lines<Decoder>, place: &mut Place) -> Result<Option<Item>, Wrong> {
    loop {
        let Some(line) = next_line(lines, place)? else { return Ok(None) };
        if let Some(block) = foreign::lirs_block(line).map_err(Wrong::Format)? {
            return Ok(Some(anonymous(block)));
        }
    }
}

fn next_arc(
    lines: &mut Lines<Decoder>,
    range: &mut std::ops::Range<u64>,
    last: &mut Option<u64>,
    place: &mut Place,
) -> Result<Option<Item>, Wrong> {
    if let Some(block) = range.next().or_else(|| last.take()) {
        return Ok(Some(anonymous(block)));
    }
    let Some(line) = next_line(lines, place)? else { return Ok(None) };
    let (start, count) = foreign::arc_range(line).map_err(Wrong::Format)?;
    // The last block may be 2^64 - 1, which no exclusive range can hold.
    (*range, *last) = (start..start + (count - 1), Some(start + (count - 1)));
    next_arc(lines, range, last, place)
}

fn next_oracle(
    input: &mut BufReader<Decoder>,
    offset: &mut u64,
    place: &mut Place,
) -> Result<Option<Item>, Wrong> {
    *place = Place::Byte(*offset);
    let mut record = [0; ORACLE_RECORD_BYTES];
    let mut filled = 0;
    while filled < record.len() {
        match input.read(&mut record[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => {
                let expected = format!("a record of {ORACLE_RECORD_BYTES} bytes, found the last {filled}");
                return Err(Wrong::Format(expected));
            }
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Wrong::Io(error)),
        }
    }
    *offset += ORACLE_RECORD_BYTES as u64;
    Ok(Some(anonymous(foreign::oracle_block(&record))))
}

/// The file's bytes after decompression.
fn decoder(path: &Path, file: impl Read + Send + 'static) -> io::Result<Decoder> {
    Ok(match compression(path) {
        Some("gz") => Box::new(flate2::read::MultiGzDecoder::new(BufReader::with_capacity(1 << 16, file))),
        Some("zst") => Box::new(zstd::Decoder::new(file)?),
        _ => Box::new(file),
    })
}

/// The steps from `NAME.files.tsv` beside the trace, in reverse order. Empty if there is no such file.
fn files_beside(path: &Path) -> Result<Vec<Directive>, TraceError> {
    let beside = stem(path).with_extension("files.tsv");
    let file = match open_input(&beside) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(TraceError::io(&beside, Place::File, "cannot be opened", error)),
    };
    let mut lines = Lines::new(file);
    let (mut directives, mut ranges) = (Vec::new(), FileRanges::new());
    loop {
        let place = Place::Line(lines.number() + 1);
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(LineError::TooLong) => return Err(TraceError::malformed(&beside, place, too_long())),
            Err(LineError::Io(error)) => {
                return Err(TraceError::io(&beside, place, "cannot be read", error));
            }
        };
        // The header names the columns; their order is part of the format.
        if place == Place::Line(1) {
            if line != FILES_HEADER {
                return Err(TraceError::malformed(&beside, place, header_expected(line)));
            }
        } else {
            let row = file_row(line).and_then(|(first, last, name)| {
                ranges.add(first, last, &name)?;
                Ok(Directive::File { first, last, name })
            });
            directives.push(row.map_err(|expected| TraceError::malformed(&beside, place, expected))?);
        }
    }
    if lines.number() == 0 {
        return Err(TraceError::malformed(&beside, Place::Line(1), header_expected(b"")));
    }
    directives.reverse();
    Ok(directives)
}

/// The first line of a `NAME.files.tsv`.
const FILES_HEADER: &[u8] = b"base\tblocks\tname\tgroup";

fn header_expected(found: &[u8]) -> String {
    let columns = "the header `base`, `blocks`, `name`, `group` separated by tabs";
    format!("{columns}, found {}", text::quoted(found))
}

/// The first and last block and the name in a row `base blocks name group`.
fn file_row(line: &[u8]) -> Result<(u64, u64, String), String> {
    let expected = || {
        let columns = "columns `base`, `blocks` (at least 1), `name`, `group` separated by tabs";
        format!("{columns}, found {}", text::quoted(line))
    };
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b'\t').collect();
    let [base, blocks, name, _group] = fields[..] else { return Err(expected()) };
    let first = text::number(base).ok_or_else(expected)?;
    let blocks = text::number(blocks).filter(|&blocks| blocks > 0).ok_or_else(expected)?;
    let last = first.checked_add(blocks - 1).ok_or_else(expected)?;
    let name = std::str::from_utf8(name).map_err(|_| expected())?;
    Ok((first, last, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::*;
    use std::fs;

    fn read(path: &Path, input: Option<Input>) -> Result<Vec<Item>, TraceError> {
        let mut reader = Reader::open(path, input, &ProgressBar::hidden())?;
        let mut items = Vec::new();
        while let Some(item) = reader.next_item()? {
            items.push(item);
        }
        Ok(items)
    }

    fn blocks(items: &[Item]) -> Vec<u64> {
        items
            .iter()
            .map(|item| match item {
                Item::Access(reference) => reference.block,
                Item::Directive(directive) => panic!("{directive:?} is no access"),
            })
            .collect()
    }

    fn sample() -> Vec<Item> {
        let access = |block, site, tenant| Item::Access(Reference { block, site, tenant });
        let text = [
            "!policy 3 -1 mru",
            "!priority 0 5 9 1",
            "!temp 0 5 9 -1",
            "!file 0 9 a b",
            "!pin 7",
            "!unpin 7",
            "!create 7",
            "!hint 3 5 9",
            "!hints-all 4",
            "!hints-replan 4",
            "!hints-end 4",
            "!compute 4 0.92",
            "!program 4 a program.policy",
            "!send 4 target -7",
            "!program-end 4",
        ];
        let directives = text.iter().map(|line| text::parse(line.as_bytes()).unwrap().unwrap());
        [access(7, 0, 0), access(8, 2, 0)]
            .into_iter()
            .chain(directives)
            .chain([access(u64::MAX, 0, 5)])
            .collect()
    }

    #[test]
    fn what_is_written_is_read_again_in_each_compression() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["t.txt", "t.txt.gz", "t.txt.zst"] {
            let path = dir.path().join(name);
            let mut writer = Writer::create(&path).unwrap();
            writer.comment("a\ncomment").unwrap();
            sample().iter().for_each(|item| writer.write(item).unwrap());
            writer.finish().unwrap();
            assert_eq!(read(&path, None).unwrap(), sample(), "{name}");
        }
    }

    #[test]
    fn a_name_that_no_line_can_hold_is_not_written() {
        for name in ["a\nb", " a", "a\t", "", "a\r"] {
            let file = Directive::File { first: 0, last: 9, name: name.to_owned() };
            let program = Directive::Program { tenant: 0, file: name.to_owned() };
            for directive in [file, program] {
                let refused = Writer::plain(io::sink()).write(&Item::Directive(directive)).unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
                assert!(refused.to_string().contains(&format!("{name:?}: expected a name")), "{refused}");
            }
        }
    }

    /// As written on other systems. A `\r` elsewhere is part of its line.
    #[test]
    fn lines_may_end_in_crlf() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.txt");
        let text = "# of elsewhere\r\n7\r\n8\t2 \r\n!file 0 9 a b\r\n9";
        fs::write(dir.path().join("t.files.tsv"), "base\tblocks\tname\tgroup\r\n10\t5\tb\tc\r\n").unwrap();
        for (text, plain) in
            [(text.to_owned(), text.replace("\r\n", "\n")), (format!("{text}\r\n"), format!("{text}\n"))]
        {
            fs::write(&path, &text).unwrap();
            let items = read(&path, None).unwrap();
            fs::write(&path, &plain).unwrap();
            assert_eq!(items, read(&path, None).unwrap());
            let Item::Directive(Directive::File { name, .. }) = &items[0] else { panic!("{items:?}") };
            assert_eq!((name.as_str(), items.len()), ("b", 5));
        }
        for wrong in ["1\r2\n", "1\n2\r", "1\r\r\n"] {
            fs::write(&path, wrong).unwrap();
            let message = read(&path, None).unwrap_err().to_string();
            assert!(message.contains(r"\r"), "{message}");
        }
    }

    #[test]
    fn malformed_text_names_file_and_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.txt");
        fs::write(&path, "1\n# fine\n2 x\n").unwrap();
        let error = read(&path, None).unwrap_err();
        assert_eq!(error.place(), Place::Line(3));
        let message = error.to_string();
        assert!(message.contains("bad.txt") && message.contains("line 3: expected a site"), "{message}");
    }

    #[test]
    fn truncated_gzip_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cut.txt.gz");
        let mut writer = Writer::create(&path).unwrap();
        (0..20_000).for_each(|block| writer.write(&anonymous(block * 7919 % 10_007)).unwrap());
        writer.finish().unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let message = read(&path, None).unwrap_err().to_string();
        assert!(message.contains("cut.txt.gz: line ") && message.contains("cannot be read"), "{message}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(Path::new("no/such.txt"), None).unwrap_err();
        assert_eq!(error.to_string(), "no/such.txt: cannot be opened, expected a trace file");
    }

    #[test]
    fn formats_are_told_by_the_name_or_the_flag() {
        for (name, input) in [
            ("a.txt.gz", Input::Text),
            ("a.tsv", Input::Text),
            ("a.oracleGeneral", Input::Oracle),
            ("a.oracleGeneral.bin.zst", Input::Oracle),
            ("OLTP.lis.zst", Input::Arc),
            ("cs.trc", Input::Lirs),
        ] {
            assert_eq!(Input::of(Path::new(name)), input, "{name}");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("numbers");
        fs::write(&path, "5\n*\n6\n").unwrap();
        assert_eq!(blocks(&read(&path, Some(Input::Lirs)).unwrap()), [5, 6]);
        assert_eq!(read(&path, None).unwrap_err().place(), Place::Line(2));
    }

    #[test]
    fn arc_lines_expand_to_their_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lis");
        fs::write(&path, format!("10 3 0 0\n4 1 0 1\n{} 2 0 2\n", u64::MAX - 1)).unwrap();
        assert_eq!(blocks(&read(&path, None).unwrap()), [10, 11, 12, 4, u64::MAX - 1, u64::MAX]);
    }

    #[test]
    fn oracle_records_are_read_and_a_partial_one_is_refused_with_its_offset() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.oracleGeneral");
        let mut bytes = Vec::new();
        for (time, block) in [(0_u32, 77_u64), (1, 5), (2, 77)] {
            bytes.extend(time.to_le_bytes());
            bytes.extend(block.to_le_bytes());
            bytes.extend(4096_u32.to_le_bytes());
            bytes.extend((-1_i64).to_le_bytes());
        }
        fs::write(&path, &bytes).unwrap();
        assert_eq!(blocks(&read(&path, None).unwrap()), [77, 5, 77]);
        fs::write(&path, &bytes[..60]).unwrap();
        let error = read(&path, None).unwrap_err();
        assert_eq!(error.place(), Place::Byte(48));
        assert!(error.to_string().contains("a record of 24 bytes, found the last 12"), "{error}");
    }

    #[test]
    fn file_ranges_beside_the_trace_come_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pg.tsv.gz");
        let mut writer = Writer::create(&path).unwrap();
        writer.write(&anonymous(3)).unwrap();
        writer.finish().unwrap();
        let beside = dir.path().join("pg.files.tsv");
        fs::write(
            &beside,
            "base\tblocks\tname\tgroup\n0\t360\tcustomer\ttable\n360\t1\tcustomer.vm\ttable\n",
        )
        .unwrap();
        let file =
            |first, last, name: &str| Item::Directive(Directive::File { first, last, name: name.to_owned() });
        let expected = vec![file(0, 359, "customer"), file(360, 360, "customer.vm"), anonymous(3)];
        assert_eq!(read(&path, None).unwrap(), expected);

        fs::write(&beside, "base\tblocks\tname\tgroup\n0\t0\tcustomer\ttable\n").unwrap();
        let message = read(&path, None).unwrap_err().to_string();
        assert!(message.contains("pg.files.tsv: line 2: expected columns `base`"), "{message}");

        fs::write(&beside, "base\tblocks\tname\tgroup\n0\t9\ta\ttable\n8\t1\tb\ttable\n").unwrap();
        let message = read(&path, None).unwrap_err().to_string();
        assert!(message.contains("pg.files.tsv: line 3: expected blocks of no other file"), "{message}");

        for headless in ["", "0\t360\tcustomer\ttable\n"] {
            fs::write(&beside, headless).unwrap();
            let message = read(&path, None).unwrap_err().to_string();
            assert!(message.contains("pg.files.tsv: line 1: expected the header `base`"), "{message}");
        }
    }
}
