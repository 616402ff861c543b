//! What accesses tell: who uses what again, and when.
//!
//! Accesses are told apart by stream ([`streams`]). On a sample of the pages ([`samples`]) the intervals
//! until the next use are learned, per class of accesses ([`intervals`]), that is per stream and kind of page
//! ([`kind`]), and what a page of some age is worth follows from them ([`ages`]). Whether a stream goes round
//! is seen from the order in which it uses pages again ([`turns`]), and its pages are valued by that
//! ([`round`]). A stream whose advice keeps being wrong has no say ([`verdict`]). What left the cache lately
//! is remembered for all pages ([`departed`]).

mod ages;
mod counts;
pub(crate) mod departed;
pub(crate) mod intervals;
pub(crate) mod kind;
mod round;
pub(crate) mod samples;
pub(crate) mod stream;
pub(crate) mod streams;
mod turns;
mod verdict;
