//! The words of a program's text.

use super::error::{ProgramError, ProgramPlace};

/// Where a word begins; both count from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    pub line: u32,
    pub column: u32,
}

impl Position {
    /// The error that something else than `expected` begins here.
    pub fn error(self, expected: impl Into<String>, found: impl Into<String>) -> ProgramError {
        let place = ProgramPlace::Text { line: self.line, column: self.column };
        ProgramError { place, expected: expected.into(), found: found.into() }
    }
}

/// A word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Name(String),
    Number(i64),
    /// One of `{ } ( ) , ; : =`.
    Sign(char),
    LineEnd,
    TextEnd,
}

impl Token {
    /// As it appears in a message.
    pub fn show(&self) -> String {
        match self {
            Self::Name(name) => quoted(name),
            Self::Number(number) => quoted(&number.to_string()),
            Self::Sign(sign) => quoted(&sign.to_string()),
            Self::LineEnd => "the end of the line".to_owned(),
            Self::TextEnd => "the end of the text".to_owned(),
        }
    }
}

/// Part of the text as it appears in a message, shortened.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 40;
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let dots = if shown.len() < text.len() { "..." } else { "" };
    format!("`{}{dots}`", shown.escape_debug())
}

/// The words of `text`, the last of them [`Token::TextEnd`], behind the last character of the last line.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Position)>, ProgramError> {
    let mut tokens = Vec::new();
    let mut end = Position { line: 1, column: 1 };
    for (number, line) in text.lines().enumerate() {
        let characters: Vec<char> = line.chars().collect();
        let line_number = number as u32 + 1;
        let mut at = 0;
        while at < characters.len() && characters[at] != '#' {
            let position = Position { line: line_number, column: at as u32 + 1 };
            let rest = &characters[at..];
            if rest[0].is_ascii_whitespace() {
                at += 1;
                continue;
            }
            let (token, length) = word(rest, position)?;
            tokens.push((token, position));
            at += length;
        }
        end = Position { line: line_number, column: characters.len() as u32 + 1 };
        tokens.push((Token::LineEnd, Position { line: line_number, column: at as u32 + 1 }));
    }
    tokens.push((Token::TextEnd, end));
    Ok(tokens)
}

/// The word that `rest` begins with, and its length.
fn word(rest: &[char], position: Position) -> Result<(Token, usize), ProgramError> {
    let is_part = |next: &char| next.is_ascii_alphanumeric() || *next == '_';
    let taken = |from: usize| from + rest[from..].iter().take_while(|next| is_part(next)).count();
    let text = |length: usize| rest[..length].iter().collect::<String>();
    match rest[0] {
        sign @ ('{' | '}' | '(' | ')' | ',' | ';' | ':' | '=') => Ok((Token::Sign(sign), 1)),
        first if first.is_ascii_alphabetic() || first == '_' => {
            let length = taken(0);
            Ok((Token::Name(text(length)), length))
        }
        first if first == '-' || first.is_ascii_digit() => {
            let length = taken(usize::from(first == '-'));
            let word = text(length);
            match number(&word) {
                Some(number) => Ok((Token::Number(number), length)),
                None => Err(position.error(
                    "a decimal number, or 0x and hexadecimal digits, from -2^63 to 2^63 - 1",
                    quoted(&word),
                )),
            }
        }
        other => {
            Err(position.error("a name, a number or one of `{ } ( ) , ; : = #`", quoted(&other.to_string())))
        }
    }
}

/// The value of `["-"] digits` or `["-"] 0x hex`, if it is within 64 bits.
fn number(word: &str) -> Option<i64> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let (digits, radix) = match digits.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (digits, 10),
    };
    // `from_str_radix` would take another sign.
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if word.starts_with('-') { -magnitude } else { magnitude }).ok()
}
