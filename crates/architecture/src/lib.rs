//! Holds the imports of each crate against the rooms that `ARCHITECTURE.md` draws.
//!
//! A *room* is a top-level folder or file of a crate's `src`. A crate's rooms are drawn in a fenced block
//! whose first line is ` ```text rooms crates/NAME `, one level a line, top first. Three rules hold, which
//! [`rules`] checks:
//!
//! 1. A room imports from rooms on lower lines, from rooms on its own line, and from itself.
//! 2. No more than three files import each other in a circle.
//! 3. No room has an inherent `impl` of a type that another room of the crate defines. The room `api` is
//!    excepted: public calls of handle types are there.
//!
//! # Method
//!
//! [`modules`] follows the `mod` declarations from `lib.rs` and `main.rs`. It leaves out items under
//! `cfg(test)`, `cfg(doctest)` and `cfg(bufpool_loom)`, and so the files that only tests compile. [`names`]
//! resolves a path as the compiler does, through renames, globs, `crate`, `self`, `super` and re-exports, to
//! the file that defines the item. [`imports`] collects the paths: those of `use` declarations, and those in
//! code, macros and types.
//!
//! - An import through a re-export is an import from the file that defines the item. If another crate defines
//!   the item, it is an import from the file of the last re-export.
//! - `pub use` of what the module's own child modules define is no import: the module publishes the item and
//!   does not use it.
//! - `use` of a module is no import by itself. Paths that go through the module's name are.
//! - A glob is an import from the file of the module it names.
//!
//! # What cannot be seen
//!
//! A method call names no import: `pool.shared.evict()` is an import neither from the file of the type nor
//! from the file of the method. Rule 3 makes up for a part of that: a method lies in the room of its type,
//! so an import of the type stands for its methods, too.
//!
//! A name that only a macro defines counts as defined in the file of the module in its path.
#![forbid(unsafe_code)]

pub mod graph;
pub mod imports;
pub mod modules;
pub mod names;
pub mod plan;
pub mod rules;

#[cfg(test)]
mod tests;
