//! Comparisons as lines of a table.

use crate::measure::comparison::{Bar, Comparison};
use crate::output::Cell;

/// The columns of [`row`].
pub const COLUMNS: &[&str] =
    &["work", "unit", "ours", "against", "theirs", "ratio", "least", "greatest", "bar", "verdict"];

/// A comparison as a line.
pub fn row(found: &Comparison) -> Vec<Cell> {
    let ratio = found.ratio();
    let decimals = match found.unit {
        "s" => 3,
        "us" | "ms" => 1,
        _ => 0,
    };
    let bar = match found.bar {
        Bar::AtLeast(bar) => Cell::text(format!(">= {bar}")),
        Bar::AtMost(bar) => Cell::text(format!("<= {bar}")),
        Bar::OursAtMost(bar) => Cell::text(format!("<= {bar} {}", found.unit)),
        Bar::None => Cell::Empty,
    };
    vec![
        found.work.into(),
        found.unit.into(),
        Cell::real(found.ours().median, decimals),
        Cell::text(&found.against),
        Cell::real(found.theirs().median, decimals),
        Cell::Ratio(ratio.median),
        Cell::Ratio(ratio.least),
        Cell::Ratio(ratio.greatest),
        bar,
        found.is_met().map_or(Cell::Empty, |is_met| Cell::text(if is_met { "met" } else { "missed" })),
    ]
}
