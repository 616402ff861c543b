//! The text of a program in a form that can be changed: slots, and events of labels and instructions.
//!
//! After a change a draft need not be a valid program. The parser decides that from its text.

use std::fmt::Write;

use bufpool_policies::program::{Operand, Program, instruction_set};

/// The kind of a slot, as the program declares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `queue`
    Queue,
    /// `ghost`
    Ghosts,
    /// `page`
    Page,
    /// `int`, with its first value.
    Int(i64),
    /// `const`, with its value.
    Const(i64),
}

/// A slot of the program.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
}

/// A line of an event.
#[derive(Clone, Debug)]
pub enum Line {
    /// A label, which stands for the instruction below it.
    Label(String),
    /// An instruction.
    Code(Code),
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Code {
    /// Its name.
    pub name: String,
    /// The kinds of its operands.
    pub row: &'static [Operand],
    /// Its operands as they are written, one for each of `row`.
    pub words: Vec<String>,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// The name of its parameter, a page, if it has one.
    pub parameter: Option<String>,
    /// Labels and instructions in order.
    pub lines: Vec<Line>,
}

/// The text of a program, taken apart.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The slots that the program declares.
    pub slots: Vec<Slot>,
    /// Its events.
    pub events: Vec<Event>,
}

impl Draft {
    /// Takes the text of a program apart.
    pub fn of(program: &Program) -> Self {
        let mut draft = Self { slots: Vec::new(), events: Vec::new() };
        for line in program.to_text().lines() {
            draft.take(line.trim());
        }
        draft
    }

    /// Takes a line of a text that [`Program::to_text`] made: one declaration, label, instruction or brace.
    fn take(&mut self, line: &str) {
        let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some(kind) = kind_of(keyword, rest).filter(|_| self.events.is_empty()) {
            let names = rest.split(" = ").next().unwrap_or(rest).split(", ");
            self.slots.extend(names.map(|name| Slot { name: name.to_owned(), kind }));
        } else if keyword == "event" {
            let head = rest.trim_end_matches(['{', ' ']);
            let (name, parameter) = match head.split_once('(') {
                Some((name, parameter)) => (name, Some(parameter.trim_end_matches(')').to_owned())),
                None => (head, None),
            };
            self.events.push(Event { name: name.to_owned(), parameter, lines: Vec::new() });
        } else if let Some(event) = self.events.last_mut().filter(|_| line != "}") {
            event.lines.push(match line.strip_suffix(':') {
                Some(label) => Line::Label(label.to_owned()),
                None => Line::Code(Code::read(keyword, rest)),
            });
        }
    }

    /// The text of the program, under this name.
    pub fn text(&self, name: &str) -> String {
        let mut text = format!("policy {name} {{\n");
        for Slot { name, kind } in &self.slots {
            let declared = match kind {
                Kind::Queue => format!("queue {name}"),
                Kind::Ghosts => format!("ghost {name}"),
                Kind::Page => format!("page {name}"),
                Kind::Int(value) => format!("int {name} = {value}"),
                Kind::Const(value) => format!("const {name} = {value}"),
            };
            push(&mut text, format_args!("  {declared}"));
        }
        for Event { name, parameter, lines } in &self.events {
            let parameter = parameter.as_ref().map_or(String::new(), |name| format!("({name})"));
            push(&mut text, format_args!("  event {name}{parameter} {{"));
            for line in lines {
                match line {
                    Line::Label(label) => push(&mut text, format_args!("  {label}:")),
                    Line::Code(Code { name, words, .. }) => {
                        push(&mut text, format_args!("    {name} {}", words.join(", ")));
                    }
                }
            }
            text.push_str("  }\n");
        }
        text.push_str("}\n");
        text
    }
}

impl Code {
    fn read(name: &str, operands: &str) -> Self {
        let words: Vec<String> =
            operands.split(", ").filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let mut forms = instruction_set();
        let form = forms.find(|form| form.name == name && form.operands.len() == words.len());
        let row = form.expect("the text is that of a program").operands;
        Self { name: name.to_owned(), row, words }
    }
}

impl Event {
    /// The indices in `lines` of the instructions.
    pub fn code_lines(&self) -> Vec<usize> {
        let is_code = |at: &usize| matches!(self.lines[*at], Line::Code(_));
        (0..self.lines.len()).filter(is_code).collect()
    }

    /// The instructions.
    pub fn code(&self) -> impl Iterator<Item = &Code> {
        self.lines.iter().filter_map(|line| match line {
            Line::Code(code) => Some(code),
            Line::Label(_) => None,
        })
    }

    /// The labels.
    pub fn labels(&self) -> impl Iterator<Item = &String> {
        self.lines.iter().filter_map(|line| match line {
            Line::Label(label) => Some(label),
            Line::Code(_) => None,
        })
    }
}

/// The kind of slot that the line declares, if it is a declaration.
fn kind_of(keyword: &str, rest: &str) -> Option<Kind> {
    let value = || rest.split_once(" = ").and_then(|(_, value)| value.parse().ok());
    match keyword {
        "queue" => Some(Kind::Queue),
        "ghost" => Some(Kind::Ghosts),
        "page" => Some(Kind::Page),
        "int" => value().map(Kind::Int),
        "const" => value().map(Kind::Const),
        _ => None,
    }
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::library;

    #[test]
    fn a_draft_says_what_the_program_says() {
        for (name, program) in library() {
            let text = Draft::of(&program).text(program.name());
            let again = Program::parse(&text).unwrap_or_else(|error| panic!("{name}:{error}\n{text}"));
            assert_eq!(again.to_bytes(), program.to_bytes(), "{name}");
        }
    }
}
