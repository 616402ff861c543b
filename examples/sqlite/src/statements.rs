//! Numbers of SQL statements, by which contexts are told apart.

use std::collections::HashMap;

use bufpool::{Context, site};
use parking_lot::Mutex;

/// Statements that have a number; those met later share number 0.
const STATEMENTS_MAX: usize = 1024;
/// The bytes of a text that tell it apart. So long values in texts take no memory.
const TEXT_BYTES_MAX: usize = 1024;

/// The statements that connections were seen to run.
#[derive(Default)]
pub(crate) struct Statements {
    numbers: Mutex<HashMap<Box<[u8]>, u64>>,
}

impl Statements {
    /// The context of a statement with this text. It stays the same from run to run.
    pub fn context(&self, text: &[u8]) -> Context {
        let text = &text[..text.len().min(TEXT_BYTES_MAX)];
        let mut numbers = self.numbers.lock();
        let number = numbers.get(text).copied().unwrap_or_else(|| {
            if numbers.len() >= STATEMENTS_MAX {
                return 0;
            }
            let number = numbers.len() as u64 + 1;
            numbers.insert(text.into(), number);
            number
        });
        Context::NONE.within(site!("statement"), Some(number))
    }

    /// The statements with their numbers, a line each.
    pub fn list(&self) -> String {
        let numbers = self.numbers.lock();
        let mut lines: Vec<_> = numbers.iter().map(|(text, number)| (number, text)).collect();
        lines.sort_unstable();
        let mut list = String::new();
        for (number, text) in lines {
            let text = String::from_utf8_lossy(text);
            let words: Vec<_> = text.split_whitespace().collect();
            list += &format!("statement {number}: {}\n", words.join(" "));
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_statement_the_beginning_is_kept() {
        let statements = Statements::default();
        let long = |end: &str| [b"INSERT ", vec![b'x'; 1 << 20].as_slice(), end.as_bytes()].concat();
        assert_eq!(statements.context(&long("1")), statements.context(&long("2")));
        assert_ne!(statements.context(b"INSERT 1"), statements.context(b"INSERT 2"));
        assert!(statements.list().len() < 4096, "{} bytes", statements.list().len());
    }
}
