//! Results as tables: aligned for people, as CSV, or as JSON, with the same columns and digits.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::{CellAlignment, presets};

use super::standard::UNPRINTABLE;

/// How a result is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// Aligned columns for people.
    Table,
    /// Comma-separated values with a header line (RFC 4180, lines end in `\n`).
    Csv,
    /// One array of objects, keys in column order.
    Json,
}

/// The message about an output file that cannot be made or written.
pub fn unwritable(path: &Path) -> String {
    format!(
        "{}: cannot be written, expected a path in a folder that exists and may be written to",
        path.display()
    )
}

/// One value of a result.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// Text, such as a name.
    Text(String),
    /// A count.
    Count(u64),
    /// A share of a whole, printed with six decimals.
    Ratio(f64),
    /// A measured quantity, printed with the given number of decimals.
    Real {
        /// The value, finite.
        value: f64,
        /// Digits after the point.
        decimals: usize,
    },
    /// No value: empty in tables and CSV, `null` in JSON.
    Empty,
}

impl Cell {
    /// A cell of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// `value` printed with `decimals` digits after the point.
    pub fn real(value: f64, decimals: usize) -> Self {
        Self::Real { value, decimals }
    }

    /// The share `part` / `whole`; 0 if `whole` is 0.
    pub fn share(part: u64, whole: u64) -> Self {
        Self::Ratio(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
    }

    /// A share, or an empty cell.
    pub fn ratio_or_empty(ratio: Option<f64>) -> Self {
        ratio.map_or(Self::Empty, Self::Ratio)
    }

    fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Ratio(ratio) => format!("{ratio:.6}"),
            Self::Real { value, decimals } => format!("{value:.decimals$}"),
            Self::Empty => String::new(),
        }
    }

    fn json(&self) -> String {
        match self {
            Self::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
            Self::Empty => "null".to_owned(),
            number => number.plain(),
        }
    }

    fn csv(&self) -> String {
        let plain = self.plain();
        if plain.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", plain.replace('"', "\"\""))
        } else {
            plain
        }
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// A result: named columns, and rows with one cell a column.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(columns: &[&'static str]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Appends a row.
    ///
    /// # Panics
    ///
    /// If the row does not have one cell a column.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "one cell a column");
        self.rows.push(row);
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[&'static str] {
        &self.columns
    }

    /// The rows in the order they were appended.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// A cell as text, as in a table for people and in CSV without quotes.
    pub fn plain(cell: &Cell) -> String {
        cell.plain()
    }

    /// Prints the table to standard output.
    ///
    /// # Errors
    ///
    /// If standard output cannot be written.
    pub fn print(&self, format: Format) -> Result<()> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        self.write(format, &mut out).and_then(|()| out.flush()).context(UNPRINTABLE)
    }

    /// Writes the table to `out`.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written.
    pub fn write(&self, format: Format, out: &mut impl Write) -> io::Result<()> {
        match format {
            Format::Table => writeln!(out, "{}", self.aligned()),
            Format::Csv => self.write_csv(out),
            Format::Json => self.write_json(out),
        }
    }

    fn aligned(&self) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_header(&self.columns);
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| {
                let alignment = match cell {
                    Cell::Text(_) => CellAlignment::Left,
                    _ => CellAlignment::Right,
                };
                comfy_table::Cell::new(cell.plain()).set_alignment(alignment)
            }));
        }
        table
    }

    fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.columns.join(","))?;
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Cell::csv).collect();
            writeln!(out, "{}", cells.join(","))?;
        }
        Ok(())
    }

    fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "[")?;
        for (number, row) in self.rows.iter().enumerate() {
            let fields: Vec<String> = self
                .columns
                .iter()
                .zip(row)
                .map(|(column, cell)| format!("{}: {}", serde_json::Value::from(*column), cell.json()))
                .collect();
            let comma = if number + 1 == self.rows.len() { "" } else { "," };
            writeln!(out, "  {{{}}}{comma}", fields.join(", "))?;
        }
        writeln!(out, "]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&["name", "count", "ratio", "time_s"]);
        table.push(vec!["a,\"b\"".into(), 3.into(), Cell::share(1, 3), Cell::real(1.25, 1)]);
        table.push(vec!["c".into(), 0.into(), Cell::share(0, 0), Cell::Empty]);
        table
    }

    fn written(format: Format) -> String {
        let mut out = Vec::new();
        sample().write(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_quotes_what_needs_it_and_leaves_empty_cells_empty() {
        assert_eq!(
            written(Format::Csv),
            "name,count,ratio,time_s\n\"a,\"\"b\"\"\",3,0.333333,1.2\nc,0,0.000000,\n"
        );
    }

    #[test]
    fn json_is_an_array_of_objects_with_null_for_nothing() {
        let parsed: serde_json::Value = serde_json::from_str(&written(Format::Json)).unwrap();
        assert_eq!(parsed[0]["name"], "a,\"b\"");
        assert_eq!(parsed[0]["count"], 3);
        assert_eq!(parsed[0]["ratio"], 0.333333);
        assert!(parsed[1]["time_s"].is_null());
    }

    #[test]
    fn tables_for_people_keep_every_cell() {
        let text = written(Format::Table);
        for cell in ["name", "time_s", "0.333333", "1.2"] {
            assert!(text.contains(cell), "{cell} is missing in\n{text}");
        }
    }

    #[test]
    #[should_panic(expected = "one cell a column")]
    fn a_short_row_is_refused() {
        Table::new(&["a", "b"]).push(vec![Cell::Empty]);
    }
}
