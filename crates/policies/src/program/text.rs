//! The text of a program, read into declarations and events. Operands are still words here.
//!
//! ```text
//! program = "policy" NAME ["privileged"] "{" { item } "}"
//! item    = "queue" NAME { "," NAME } | "ghost" NAME { "," NAME } | "page" NAME { "," NAME }
//!         | "int" NAME [ "=" NUMBER ] | "const" NAME "=" NUMBER | event
//! event   = "event" NAME [ "(" NAME ")" ] "{" { { LABEL ":" } instr } "}"
//! instr   = OP [ operand { "," operand } ]        ended by ";", end of line or "}"
//! operand = NAME | NUMBER
//! ```

use super::code::SlotKind;
use super::error::ProgramError;
use super::lexer::{Position, Token, tokens};

/// A name, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub text: String,
    pub at: Position,
}

/// The text of a program.
pub(super) struct Source {
    pub name: Name,
    pub is_privileged: bool,
    pub slots: Vec<(Name, SlotKind)>,
    pub events: Vec<EventSource>,
    /// The brace that ends the program.
    pub end: Position,
}

/// The text of an event.
pub(super) struct EventSource {
    pub name: Name,
    pub parameter: Option<Name>,
    /// Labels, each with the number of the line that follows it.
    pub labels: Vec<(Name, usize)>,
    pub lines: Vec<Line>,
    /// The brace that ends the event.
    pub end: Position,
}

/// The text of an instruction.
pub(super) struct Line {
    pub op: Name,
    pub operands: Vec<(Word, Position)>,
}

/// The text of an operand.
#[derive(Clone, Debug)]
pub(super) enum Word {
    Name(String),
    Number(i64),
}

/// Reads the text of a program.
pub(super) fn read(text: &str) -> Result<Source, ProgramError> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    parser.program()
}

/// Reads tokens from the first to the last.
struct Parser {
    tokens: Vec<(Token, Position)>,
    at: usize,
}

impl Parser {
    fn program(&mut self) -> Result<Source, ProgramError> {
        self.keyword("policy", "`policy` and the name of the program")?;
        let name = self.name("the name of the program")?;
        let mut is_privileged = false;
        if self.skip_lines().0 == Token::Name("privileged".to_owned()) {
            is_privileged = true;
            self.at += 1;
        }
        self.sign('{', if is_privileged { "`{`" } else { "`privileged` or `{`" })?;
        let (mut slots, mut events) = (Vec::new(), Vec::new());
        let end = loop {
            let (token, at) = self.skip_lines();
            let keyword = if let Token::Name(name) = &token { name.as_str() } else { "" };
            match keyword {
                "event" => {
                    self.at += 1;
                    events.push(self.event()?);
                }
                "queue" | "ghost" | "page" | "int" | "const" => {
                    self.at += 1;
                    self.declaration(keyword, &mut slots)?;
                }
                _ if token == Token::Sign('}') => break at,
                _ => {
                    let expected = "`queue`, `ghost`, `page`, `int`, `const`, `event` or `}`";
                    return Err(at.error(expected, token.show()));
                }
            }
        };
        self.at += 1;
        match self.skip_lines() {
            (Token::TextEnd, _) => Ok(Source { name, is_privileged, slots, events, end }),
            (token, at) => Err(at.error("nothing after the end of the program", token.show())),
        }
    }

    /// What follows `queue`, `ghost`, `page`, `int` or `const`.
    fn declaration(&mut self, keyword: &str, slots: &mut Vec<(Name, SlotKind)>) -> Result<(), ProgramError> {
        let name = self.name("the name of a slot")?;
        let has_value = matches!(keyword, "int" | "const") && self.skip_sign('=');
        match keyword {
            "int" if !has_value => slots.push((name, SlotKind::Int(0))),
            "int" => slots.push((name, SlotKind::Int(self.number()?))),
            "const" if !has_value => {
                let (token, at) = self.skip_lines();
                return Err(at.error("`=` and the value of the constant", token.show()));
            }
            "const" => slots.push((name, SlotKind::Const(self.number()?))),
            _ => {
                let kind = match keyword {
                    "queue" => SlotKind::Queue,
                    "ghost" => SlotKind::Ghosts,
                    _ => SlotKind::Page,
                };
                slots.push((name, kind));
                while self.skip_sign(',') {
                    slots.push((self.name("the name of a slot")?, kind));
                }
            }
        }
        Ok(())
    }

    /// What follows `event`.
    fn event(&mut self) -> Result<EventSource, ProgramError> {
        let name = self.name("the name of an event")?;
        let mut parameter = None;
        if self.skip_sign('(') {
            parameter = Some(self.name("the name of the page that the event is given")?);
            self.sign(')', "`)`")?;
        }
        self.sign('{', if parameter.is_none() { "`(` or `{`" } else { "`{`" })?;
        let (mut labels, mut lines) = (Vec::new(), Vec::new());
        loop {
            let (token, at) = self.skip_lines();
            self.at += 1;
            let word = match token {
                Token::Name(text) => Name { text, at },
                Token::Sign('}') => return Ok(EventSource { name, parameter, labels, lines, end: at }),
                other => return Err(at.error("an instruction, a label or `}`", other.show())),
            };
            if self.peek().0 == Token::Sign(':') {
                self.at += 1;
                labels.push((word, lines.len()));
            } else {
                lines.push(self.line(word)?);
            }
        }
    }

    /// What follows the name of an instruction, with what ends it.
    fn line(&mut self, op: Name) -> Result<Line, ProgramError> {
        let mut operands = Vec::new();
        if matches!(self.peek().0, Token::Name(_) | Token::Number(_)) {
            operands.push(self.operand()?);
            while self.peek().0 == Token::Sign(',') {
                self.at += 1;
                operands.push(self.operand()?);
            }
        }
        let (token, at) = self.peek();
        match token {
            Token::Sign(';') | Token::LineEnd => self.at += 1,
            // At the end of the text the event itself finds that its brace is missing.
            Token::Sign('}') | Token::TextEnd => {}
            other if operands.is_empty() => {
                return Err(at.error("an operand, `;`, the end of the line or `}`", other.show()));
            }
            other => return Err(at.error("`,`, `;`, the end of the line or `}`", other.show())),
        }
        Ok(Line { op, operands })
    }

    fn operand(&mut self) -> Result<(Word, Position), ProgramError> {
        let (token, at) = self.peek();
        self.at += 1;
        match token {
            Token::Name(name) => Ok((Word::Name(name), at)),
            Token::Number(number) => Ok((Word::Number(number), at)),
            other => Err(at.error("an operand, which is a name or a number", other.show())),
        }
    }

    fn keyword(&mut self, keyword: &str, expected: &str) -> Result<(), ProgramError> {
        let (token, at) = self.skip_lines();
        if token != Token::Name(keyword.to_owned()) {
            return Err(at.error(expected, token.show()));
        }
        self.at += 1;
        Ok(())
    }

    fn name(&mut self, expected: &str) -> Result<Name, ProgramError> {
        match self.skip_lines() {
            (Token::Name(text), at) => {
                self.at += 1;
                Ok(Name { text, at })
            }
            (other, at) => Err(at.error(expected, other.show())),
        }
    }

    fn number(&mut self) -> Result<i64, ProgramError> {
        match self.skip_lines() {
            (Token::Number(number), _) => {
                self.at += 1;
                Ok(number)
            }
            (other, at) => Err(at.error("a number", other.show())),
        }
    }

    fn sign(&mut self, sign: char, expected: &str) -> Result<(), ProgramError> {
        if self.skip_sign(sign) {
            return Ok(());
        }
        let (token, at) = self.skip_lines();
        Err(at.error(expected, token.show()))
    }

    /// Takes the sign if it comes next; ends of lines before it do not count.
    fn skip_sign(&mut self, sign: char) -> bool {
        let is_next = self.skip_lines().0 == Token::Sign(sign);
        self.at += usize::from(is_next);
        is_next
    }

    /// The next token that is no end of a line.
    fn skip_lines(&mut self) -> (Token, Position) {
        while self.peek().0 == Token::LineEnd {
            self.at += 1;
        }
        self.peek()
    }

    /// The next token; the end of the text is the next one for ever.
    fn peek(&self) -> (Token, Position) {
        self.tokens[self.at.min(self.tokens.len() - 1)].clone()
    }
}
