//! Writing the text format.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::text::milliseconds;
use super::{Directive, Item, Reference};
use crate::output::WholeFile;

/// Writes steps of a trace as lines of text, compressed if the file's name ends in `.gz` or `.zst`.
///
/// Columns that would be 0 to the end of the line are left out. [`Writer::finish`] puts a file in place; a
/// writer that is dropped before leaves no file.
pub struct Writer<'a> {
    out: Encoder<'a>,
}

enum Encoder<'a> {
    Plain(BufWriter<Box<dyn Write + Send + 'a>>),
    File(BufWriter<WholeFile>),
    Gzip(BufWriter<GzEncoder<WholeFile>>),
    Zstd(BufWriter<zstd::Encoder<'static, WholeFile>>),
}

impl Writer<'static> {
    /// Begins a file at `path`. A file that is there already stays until [`Writer::finish`].
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = WholeFile::create(path)?;
        let out = match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Encoder::Gzip(BufWriter::new(GzEncoder::new(file, Compression::default()))),
            Some("zst") => Encoder::Zstd(BufWriter::new(zstd::Encoder::new(file, 0)?)),
            _ => Encoder::File(BufWriter::new(file)),
        };
        Ok(Self { out })
    }
}

impl<'a> Writer<'a> {
    /// Writes plain text to `out`.
    pub fn plain(out: impl Write + Send + 'a) -> Self {
        Self { out: Encoder::Plain(BufWriter::new(Box::new(out))) }
    }

    /// Writes one step.
    ///
    /// # Errors
    ///
    /// If the output cannot be written, or the name of a file would be another one when read back.
    pub fn write(&mut self, item: &Item) -> io::Result<()> {
        match item {
            Item::Access(reference) => self.access(reference),
            Item::Directive(directive) => self.directive(directive),
        }
    }

    /// Writes a comment line.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn comment(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.line(), "# {}", text.replace(['\n', '\r'], " "))
    }

    /// Writes what is still buffered, ends the compressed stream, and puts the file in place.
    ///
    /// # Errors
    ///
    /// If the output cannot be written, or the file cannot be put in place.
    pub fn finish(self) -> io::Result<()> {
        match self.out {
            Encoder::Plain(mut out) => out.flush(),
            Encoder::File(out) => out.into_inner()?.finish(),
            Encoder::Gzip(out) => out.into_inner()?.finish()?.finish(),
            Encoder::Zstd(out) => out.into_inner()?.finish()?.finish(),
        }
    }

    fn line(&mut self) -> &mut dyn Write {
        match &mut self.out {
            Encoder::Plain(out) => out,
            Encoder::File(out) => out,
            Encoder::Gzip(out) => out,
            Encoder::Zstd(out) => out,
        }
    }

    fn access(&mut self, reference: &Reference) -> io::Result<()> {
        let Reference { block, site, tenant } = reference;
        match (site, tenant) {
            (0, 0) => writeln!(self.line(), "{block}"),
            (_, 0) => writeln!(self.line(), "{block}\t{site}"),
            _ => writeln!(self.line(), "{block}\t{site}\t{tenant}"),
        }
    }

    fn directive(&mut self, directive: &Directive) -> io::Result<()> {
        if let Directive::File { name, .. } | Directive::Program { file: name, .. } = directive {
            fits_a_line(name)?;
        }
        let out = self.line();
        match directive {
            Directive::Policy { tenant, prio, policy } => writeln!(out, "!policy {tenant} {prio} {policy}"),
            Directive::Priority { tenant, first, last, prio } => {
                writeln!(out, "!priority {tenant} {first} {last} {prio}")
            }
            Directive::TemporaryPriority { tenant, first, last, prio } => {
                writeln!(out, "!temp {tenant} {first} {last} {prio}")
            }
            Directive::File { first, last, name } => writeln!(out, "!file {first} {last} {name}"),
            Directive::Pin(block) => writeln!(out, "!pin {block}"),
            Directive::Unpin(block) => writeln!(out, "!unpin {block}"),
            Directive::Create(block) => writeln!(out, "!create {block}"),
            Directive::Hint { tenant, first, last } => writeln!(out, "!hint {tenant} {first} {last}"),
            Directive::HintsAll { tenant } => writeln!(out, "!hints-all {tenant}"),
            Directive::HintsReplan { tenant } => writeln!(out, "!hints-replan {tenant}"),
            Directive::HintsEnd { tenant } => writeln!(out, "!hints-end {tenant}"),
            Directive::Program { tenant, file } => writeln!(out, "!program {tenant} {file}"),
            Directive::ProgramEnd { tenant } => writeln!(out, "!program-end {tenant}"),
            Directive::Send { tenant, slot, value } => writeln!(out, "!send {tenant} {slot} {value}"),
            Directive::Compute { tenant, compute_us } => {
                writeln!(out, "!compute {tenant} {}", milliseconds(*compute_us))
            }
        }
    }
}

/// Fails if a name at the end of a line would be another one when read back. The reader skips blanks and tabs
/// before the name, and all white space after it.
fn fits_a_line(name: &str) -> io::Result<()> {
    let is_read_whole = !name.starts_with([' ', '\t']) && name.trim_end() == name;
    if !name.is_empty() && !name.contains('\n') && is_read_whole {
        return Ok(());
    }
    let expected = "a name that a line of a trace can hold, without a line break and white space at its ends";
    let message = format!("the file {name:?}: expected {expected}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}
