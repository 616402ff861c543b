//! Goal: any bytes can be read as a trace; the reader ends, or fails with an error that says where and what
//! is wrong. Method: lines that are nearly right, random bytes, and inputs on which the fuzz target
//! `trace_text` once failed.

mod trace_bytes;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use trace_bytes::check;

/// A line made of words of the formats, and of other words.
fn line() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => "[0-9]{1,4}",
        2 => Just("18446744073709551615".to_owned()),
        2 => "-?[0-9]{1,2}",
        4 => prop::sample::select(&["!policy", "!priority", "!temp", "!file", "!pin", "!unpin"][..])
            .prop_map(str::to_owned),
        2 => prop::sample::select(&["!hint", "!hints-all", "!compute", "0.92", "7.", ".5"][..])
            .prop_map(str::to_owned),
        2 => prop::sample::select(&["lru", "mru", "clock", "opt", "#", "*", "\r", "\u{b}", "\u{a0}"][..])
            .prop_map(str::to_owned),
        1 => "\\PC{0,3}",
    ];
    let blank = prop::sample::select(&[" ", "\t", "  ", ""][..]);
    prop::collection::vec((word, blank), 0..6)
        .prop_map(|words| words.into_iter().map(|(word, blank)| word + blank).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn lines_that_are_nearly_right(lines in prop::collection::vec(line(), 0..6)) {
        check(lines.join("\n").as_bytes());
    }

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }
}

#[test]
fn a_line_without_end() {
    check(&vec![b'7'; 3 << 20]);
}

/// Inputs on which the fuzz target once failed.
#[test]
fn regressions() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/trace_text");
    let Ok(inputs) = fs::read_dir(&directory) else {
        println!("skipped: there is no {}", directory.display());
        return;
    };
    for input in inputs {
        let path = input.unwrap().path();
        println!("{}", path.display());
        check(&fs::read(path).unwrap());
    }
}
