//! Traces: sequences of accesses, with directives between them.
//!
//! [`Reader`] streams a file in any of the formats below, [`Writer`] writes the text format, and [`Trace`]
//! prepares a file for the simulator: blocks, sites and tenants renumbered densely, accesses held in memory
//! as far as a budget allows and read again from the file beyond it.
//!
//! | input | a line or record is | by extension |
//! | --- | --- | --- |
//! | text | `block [site [tenant]]`, `#` comment, `!` directive | anything else |
//! | oracle | 24 bytes, little endian: time u32, block u64, size u32, next access i64 | `.oracleGeneral*` |
//! | arc | `start count ignore id`: blocks start..start + count | `.lis`, `.arc` |
//! | lirs | one block; a line `*` separates phases and is skipped | `.trc`, `.lirs` |
//!
//! Lines end in LF or CRLF. Each may be compressed: `.gz` (several members allowed) or `.zst`. Anything
//! malformed is a [`TraceError`].

mod error;
mod file_ranges;
mod foreign;
mod input_file;
mod lines;
mod loaded;
mod numbering;
mod read;
pub mod recording;
mod replay;
mod size;
mod text;
mod write;

use std::path::Path;

use bufpool_policies::classic::PolicyKind;

pub use error::{Place, TraceError};
pub use file_ranges::FileRanges;
pub use input_file::open_input;
pub use lines::read_text;
pub use loaded::{LoadOptions, Trace};
pub use numbering::Numbering;
pub use read::{Input, Reader};
pub use replay::{Act, Batch, Replay};
pub use size::Size;
pub use text::microseconds;
pub use write::Writer;

/// One access of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The block.
    pub block: u64,
    /// The call site that accesses the block; 0 means unknown.
    pub site: u32,
    /// The tenant that accesses the block.
    pub tenant: u32,
}

/// Something that happens between two accesses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Directive {
    /// The tenant's level `prio` is replaced by `policy`.
    Policy {
        /// Whose level.
        tenant: u32,
        /// Which level, -32..=31.
        prio: i32,
        /// By which policy.
        policy: PolicyKind,
    },
    /// Long-term priority of the tenant's blocks `first..=last`.
    Priority {
        /// Whose blocks.
        tenant: u32,
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
        /// -32..=31.
        prio: i32,
    },
    /// Temporary priority of those of the tenant's blocks `first..=last` that are resident now.
    TemporaryPriority {
        /// Whose blocks.
        tenant: u32,
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
        /// -32..=31.
        prio: i32,
    },
    /// Blocks `first..=last` are the file `name`.
    File {
        /// The first block.
        first: u64,
        /// The last block.
        last: u64,
        /// The file's name; ranges of the same name are one file.
        name: String,
    },
    /// The block's frame may not be taken until as many [`Directive::Unpin`] follow. Pins of one block nest.
    Pin(u64),
    /// Takes back one [`Directive::Pin`] of the block.
    Unpin(u64),
    /// The next access gives this block new contents, so that nothing is read for it. [`Trace`] refuses a
    /// trace whose next access is to another block.
    Create(u64),
    /// The tenant will access the blocks `first..=last`, in this order, after the blocks of its earlier
    /// hints. Blocks are fetched ahead on a [simulated machine](crate::simulate::machine) only.
    Hint {
        /// Whose hint.
        tenant: u32,
        /// The first block.
        first: u64,
        /// The last block.
        last: u64,
    },
    /// The tenant discloses all accesses that it makes from here on.
    HintsAll {
        /// Whose accesses.
        tenant: u32,
    },
    /// The hints of the tenant that follow, up to the first access or directive of another kind, take the
    /// place of those that were not used yet. Without effect on a
    /// [simulated machine](crate::simulate::machine).
    HintsReplan {
        /// Whose hints.
        tenant: u32,
    },
    /// The tenant's hints that were not used yet are withdrawn. Without effect on a
    /// [simulated machine](crate::simulate::machine), where hints end by being used.
    HintsEnd {
        /// Whose hints.
        tenant: u32,
    },
    /// The tenant's manager is the program in a file, whose path is relative to the trace's folder.
    Program {
        /// Whose manager.
        tenant: u32,
        /// The path of the program's text.
        file: String,
    },
    /// The tenant's program, or what else manages it, is removed.
    ProgramEnd {
        /// Whose manager.
        tenant: u32,
    },
    /// A slot of the tenant's program gets a value.
    Send {
        /// Whose program.
        tenant: u32,
        /// The slot's name in the program.
        slot: String,
        /// The slot's value from here on.
        value: i64,
    },
    /// How long the tenant computes before each of its later accesses. Of use on a
    /// [simulated machine](crate::simulate::machine) only.
    Compute {
        /// Which tenant computes.
        tenant: u32,
        /// How long, in microseconds.
        compute_us: u32,
    },
}

impl Directive {
    /// The tenant that the directive names, if it names one.
    pub fn tenant(&self) -> Option<u32> {
        match *self {
            Self::Policy { tenant, .. }
            | Self::Priority { tenant, .. }
            | Self::TemporaryPriority { tenant, .. }
            | Self::Hint { tenant, .. }
            | Self::HintsAll { tenant }
            | Self::HintsReplan { tenant }
            | Self::HintsEnd { tenant }
            | Self::Program { tenant, .. }
            | Self::ProgramEnd { tenant }
            | Self::Send { tenant, .. }
            | Self::Compute { tenant, .. } => Some(tenant),
            Self::File { .. } | Self::Pin(_) | Self::Unpin(_) | Self::Create(_) => None,
        }
    }
}

/// One step of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// An access.
    Access(Reference),
    /// Something that happens between two accesses.
    Directive(Directive),
}

/// The name under which a trace appears in results: the file's base name up to the first dot.
pub fn base_name(path: &Path) -> String {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    match name.split_once('.') {
        Some((base, _)) if !base.is_empty() => base.to_owned(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_names_end_at_the_first_dot() {
        for (path, name) in [
            ("/a.b/pg_mixed3.tsv.gz", "pg_mixed3"),
            ("clickbench_q00-q22.txt", "clickbench_q00-q22"),
            ("cs", "cs"),
            (".hidden", ".hidden"),
        ] {
            assert_eq!(base_name(Path::new(path)), name);
        }
    }
}
