//! The programs of `examples/programs`, which a search begins with.

use bufpool_policies::program::Program;

macro_rules! programs {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../../../examples/programs/", $name, ".policy")))),*]
    };
}

/// The name and the text of each program.
const PROGRAMS: [(&str, &str); 12] = programs![
    "s3-fifo" "lirs" "2q" "sieve" "lhd" "lru" "fifo2" "clock" "fifo" "lfu" "get-scan" "mru"
];

/// The programs of the library, with their names, in the order in which a search grades them.
///
/// # Panics
///
/// If one of the texts is no valid program, which a test excludes.
pub fn library() -> Vec<(&'static str, Program)> {
    let parse = |(name, text)| match Program::parse(text) {
        Ok(program) => (name, program),
        Err(error) => panic!("{name}.policy:{error}"),
    };
    PROGRAMS.into_iter().map(parse).collect()
}
