//! `bufbench gen`: writes a synthetic stream as a trace.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::cli::{Common, whole};
use crate::output::{UNPRINTABLE, note, unwritable};
use crate::streams::{self, Advice, SettingError, Settings, Stream};
use crate::trace::Writer;

/// Arguments of `bufbench gen`.
#[derive(Args, Debug)]
#[command(after_help = list())]
pub struct GenArgs {
    /// The stream
    pub name: String,
    /// Changes a parameter of the stream
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Reads by which each tenant of the stream `clients` follows the tenant before it; the same as --set
    /// lag=READS
    #[arg(long, value_name = "READS", value_parser = whole::<u64>(0..=u64::MAX))]
    pub lag: Option<u64>,
    /// Which directives the stream gives
    #[arg(long, value_enum, default_value_t = Advice::None)]
    pub advice: Advice,
    /// File to write, compressed if it ends in .gz or .zst [default: standard output]
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// Writes the stream.
///
/// # Errors
///
/// If the stream or a parameter does not exist, a parameter is given twice, a value is out of range or asks
/// for more memory than there is, or the output cannot be written.
pub fn run(args: &GenArgs, common: &Common) -> Result<()> {
    let Some(stream) = streams::find(&args.name) else {
        let names: Vec<&str> = streams::all().map(|stream| stream.name).collect();
        bail!("expected one of the streams {}, found `{}`", names.join(" "), args.name);
    };
    let mut settings = stream.settings();
    let lag = args.lag.map(|reads| format!("lag={reads}"));
    let mut keys = HashSet::new();
    for assignment in args.set.iter().chain(&lag) {
        settings.set(assignment)?;
        let key = assignment.split('=').next();
        ensure!(keys.insert(key), "--set {assignment}: expected each key once");
    }
    if !gives(stream, args.advice) {
        note(format_args!(
            "bufbench: no such advice is published for `{}`: it gives no directives",
            stream.name
        ));
    }
    let writer = match &args.out {
        Some(path) => Writer::create(path).with_context(|| unwritable(path))?,
        None => Writer::plain(io::stdout()),
    };
    let written = write(stream, &settings, args.advice, common.seed, writer);
    written.or_else(|error| match error.downcast::<SettingError>() {
        Ok(setting) => Err(setting.into()),
        Err(error) => Err(error).with_context(|| match &args.out {
            Some(path) => unwritable(path),
            None => UNPRINTABLE.to_owned(),
        }),
    })
}

fn write(
    stream: &Stream,
    settings: &Settings,
    advice: Advice,
    seed: u64,
    mut writer: Writer<'_>,
) -> io::Result<()> {
    stream.emit(settings, advice, seed, &mut |item| writer.write(&item))?;
    writer.finish()
}

/// Whether the stream has directives of that kind.
fn gives(stream: &Stream, advice: Advice) -> bool {
    match advice {
        Advice::None => true,
        Advice::Smart => stream.has_smart_advice,
        Advice::Foolish => stream.has_foolish_advice,
    }
}

/// All streams with their parameters, for the help text.
fn list() -> String {
    let mut text = "Streams and their parameters:\n".to_owned();
    for stream in streams::all() {
        text += &format!("  {:<8} {}\n", stream.name, stream.about);
        for parameter in stream.parameters {
            text += &format!("             {}={}  {}\n", parameter.name, parameter.default, parameter.about);
        }
    }
    text
}
