//! Results as one self-contained HTML page: tables, charts, and a description of the machine. The page loads
//! nothing from elsewhere.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::WholeFile;
use super::table::{Cell, Table};
use crate::machine::Machine;

const STYLE: &str = "
:root { color-scheme: light; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1a1a1a; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
div.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: .25rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: 13px; }
dt { color: #555; } dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
@media print { body { margin: 0; max-width: none; } figure, tr { break-inside: avoid; } div.table { overflow-x: visible; } }
";

/// A page that is composed from top to bottom.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    body: String,
}

impl Report {
    /// An empty page with this title.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), body: String::new() }
    }

    /// Appends a heading.
    pub fn heading(&mut self, text: &str) {
        self.push(&format!("<h2>{}</h2>\n", escaped(text)));
    }

    /// Appends a paragraph of text.
    pub fn paragraph(&mut self, text: &str) {
        self.push(&format!("<p>{}</p>\n", escaped(text)));
    }

    /// Appends a table of results.
    pub fn table(&mut self, table: &Table) {
        let mut html = String::from("<div class=\"table\"><table>\n<thead><tr>");
        for column in table.columns() {
            let _ = write!(html, "<th>{}</th>", escaped(column));
        }
        html += "</tr></thead>\n<tbody>\n";
        for row in table.rows() {
            html += "<tr>";
            for cell in row {
                let class =
                    if matches!(cell, Cell::Text(_) | Cell::Empty) { "" } else { " class=\"number\"" };
                let _ = write!(html, "<td{class}>{}</td>", escaped(&Table::plain(cell)));
            }
            html += "</tr>\n";
        }
        html += "</tbody>\n</table></div>\n";
        self.push(&html);
    }

    /// Appends a chart made by [`super::plot`].
    pub fn chart(&mut self, svg: &str) {
        self.push(&format!("<figure>{svg}</figure>\n"));
    }

    /// The whole page; `machine` is described at its end.
    pub fn html(&self, machine: &Machine) -> String {
        let title = escaped(&self.title);
        let mut facts = String::new();
        for (name, value) in machine.facts() {
            let _ = writeln!(facts, "<dt>{name}</dt><dd>{}</dd>", escaped(&value));
        }
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{}\
             <h2>Made by</h2>\n<dl>\n{facts}</dl>\n</body>\n</html>\n",
            self.body
        )
    }

    /// Writes the page and puts the file in place. The page names the device of `data_dir`, the folder of the
    /// data files.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, file: WholeFile, data_dir: &Path) -> io::Result<()> {
        file.finish_with(&self.html(&Machine::look(data_dir)))
    }

    fn push(&mut self, html: &str) {
        self.body += html;
    }
}

/// Text with the special characters of HTML escaped.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_parts_in_order_and_loads_nothing() {
        let mut report = Report::new("Results <1>");
        report.heading("First");
        report.paragraph("a & b");
        let mut table = Table::new(&["name", "count"]);
        table.push(vec!["x<y".into(), 3.into()]);
        report.table(&table);
        report.chart("<svg></svg>");
        let html = report.html(&Machine::look(Path::new(".")));
        let parts = [
            "<h1>Results &lt;1&gt;",
            "<h2>First",
            "a &amp; b",
            "<th>name",
            "x&lt;y",
            "<td class=\"number\">3",
            "<svg>",
            "kernel",
            "commit",
            "command",
        ];
        let positions: Vec<usize> = parts.iter().map(|part| html.find(part).expect(part)).collect();
        assert!(positions.is_sorted(), "{positions:?}");
        for outside in ["http", "src=", "href=", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
    }
}
