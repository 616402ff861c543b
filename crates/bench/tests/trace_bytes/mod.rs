//! Checks that hold for any bytes that are read as a trace: the reader ends, and says where and what is
//! wrong.
//!
//! The test `trace_reader` and the fuzz target `trace_text` share this file.

use std::io::Cursor;
use std::path::Path;

use bufpool_bench::trace::{Input, Item, Place, Reader, TraceError, Writer};

/// The most steps of a trace that are read; a line of an ARC trace stands for up to a million steps.
const STEPS_MAX: usize = 1 << 16;

/// Reads `bytes` in every format, and as compressed text. Panics if the reader breaks a promise.
pub fn check(bytes: &[u8]) {
    let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
    for (input, name) in [(Input::Text, "t.txt"), (Input::Arc, "t.arc"), (Input::Lirs, "t.trc")] {
        match read(bytes, input, name) {
            Ok(items) if input == Input::Text => check_round_trip(&items),
            Ok(_) => {}
            Err(error) => {
                let message = error.to_string();
                let Place::Line(line) = error.place() else { panic!("no line: {message}") };
                assert!((1..=lines).contains(&line), "of {lines} lines: {message}");
                assert!(message.starts_with(&format!("{name}: line {line}: expected ")), "{message}");
            }
        }
    }
    match read(bytes, Input::Oracle, "t.oracleGeneral") {
        Ok(items) => assert_eq!(items.len(), (bytes.len() / 24).min(STEPS_MAX)),
        Err(error) => assert_eq!(error.place(), Place::Byte((bytes.len() / 24 * 24) as u64)),
    }
    for name in ["t.txt.gz", "t.txt.zst"] {
        if let Err(error) = read(bytes, Input::Text, name) {
            assert!(error.to_string().starts_with(name), "{error}");
        }
    }
}

/// Writes the items and reads them back, which has to give the same items.
fn check_round_trip(items: &[Item]) {
    let mut text = Vec::new();
    let mut writer = Writer::plain(&mut text);
    items.iter().for_each(|item| writer.write(item).unwrap());
    writer.finish().unwrap();
    assert_eq!(read(&text, Input::Text, "again.txt").unwrap(), items);
}

fn read(bytes: &[u8], input: Input, name: &str) -> Result<Vec<Item>, TraceError> {
    let mut reader = Reader::from_source(Path::new(name), input, Cursor::new(bytes.to_vec()))?;
    let mut items = Vec::new();
    while items.len() < STEPS_MAX
        && let Some(item) = reader.next_item()?
    {
        items.push(item);
    }
    Ok(items)
}
