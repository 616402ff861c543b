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
//! [`modules`] follows the `mod` declarations from `lib.rs` and `main.rs`, so files that only tests compile
//! are left out: items under `cfg(test)`, `cfg(doctest)` and `cfg(bufpool_loom)` are. [`names`] resolves a
//! path as the compiler does, through renames, globs, `crate`, `self`, `super` and re-exports, to the file
//! that defines the item. [`imports`] collects the paths: those of `use` declarations, and those in code,
//! macros and types.
//!
//! - An import through a re-export is an import from the file that defines the item; from the last
//!   re-export's file if another crate defines it.
//! - `pub use` of what the module's own child modules define is no import: the module publishes the item and
//!   does not use it.
//! - `use` of a module is no import by itself; the paths that go through the name are.
//! - A glob is an import from the file of the module it names.
//!
//! # What cannot be seen
//!
//! A method call names no import: `pool.shared.evict()` is an import neither from the file of the type nor
//! from the file of the method. Nor is a name that only a macro defines: it counts as defined in the file of
//! the module in its path. Rule 3 exists for the first reason: a method lies in the room of its type, so who
//! may call it is decided by who may import the type.
#![forbid(unsafe_code)]

pub mod allowed;
pub mod graph;
pub mod imports;
pub mod modules;
pub mod names;
pub mod plan;
pub mod rules;

#[cfg(test)]
mod tests;
