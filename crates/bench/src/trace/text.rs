//! One line of the text format.

use std::str;

use bufpool_policies::UnknownName;
use bufpool_policies::classic::PolicyKind;

use super::{Directive, Item, Reference};

/// The step that a line holds; `None` for a comment.
///
/// # Errors
///
/// What was expected instead.
pub fn parse(line: &[u8]) -> Result<Option<Item>, String> {
    match line.first() {
        Some(b'0'..=b'9') => parse_access(line).map(|access| Some(Item::Access(access))),
        Some(b'#') => Ok(None),
        Some(b'!') => parse_directive(line).map(|directive| Some(Item::Directive(directive))),
        Some(b' ' | b'\t') if !line.trim_ascii().is_empty() => parse(line.trim_ascii_start()),
        _ => Err(format!("`block [site [tenant]]`, `# comment` or `!directive`, found {}", quoted(line))),
    }
}

/// `block [site [tenant]]`
fn parse_access(line: &[u8]) -> Result<Reference, String> {
    let mut fields = fields(line);
    let reference = Reference {
        block: fields.next().and_then(number).ok_or_else(|| expected_block(line))?,
        site: small(fields.next(), "site", line)?,
        tenant: small(fields.next(), "tenant", line)?,
    };
    match fields.next() {
        None => Ok(reference),
        Some(_) => Err(format!("at most three columns `block [site [tenant]]`, found {}", quoted(line))),
    }
}

fn expected_block(line: &[u8]) -> String {
    format!("a block, an unsigned decimal below 2^64, found {}", quoted(line))
}

/// The value of a column; 0 if the column is missing.
fn small(field: Option<&[u8]>, name: &str, line: &[u8]) -> Result<u32, String> {
    match field {
        None => Ok(0),
        Some(digits) => number(digits)
            .and_then(|value| u32::try_from(value).ok())
            .ok_or_else(|| format!("a {name}, an unsigned decimal below 2^32, found {}", quoted(line))),
    }
}

/// `!name arguments`
fn parse_directive(line: &[u8]) -> Result<Directive, String> {
    let text = str::from_utf8(line).map_err(|_| format!("UTF-8 text, found {}", quoted(line)))?;
    let words: Vec<&str> = text.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    let usage = match words[0] {
        "!policy" => "!policy TENANT PRIO NAME",
        "!priority" => "!priority TENANT FIRST LAST PRIO",
        "!temp" => "!temp TENANT FIRST LAST PRIO",
        "!file" => "!file FIRST LAST NAME",
        "!pin" => "!pin BLOCK",
        "!unpin" => "!unpin BLOCK",
        "!create" => "!create BLOCK",
        "!hint" => "!hint TENANT FIRST LAST",
        "!hints-all" => "!hints-all TENANT",
        "!hints-replan" => "!hints-replan TENANT",
        "!hints-end" => "!hints-end TENANT",
        "!compute" => "!compute TENANT MS",
        "!program" => "!program TENANT FILE",
        "!program-end" => "!program-end TENANT",
        "!send" => "!send TENANT SLOT VALUE",
        _ => {
            let known = "!policy, !priority, !temp, !file, !pin, !unpin, !create, !hint, !hints-all, \
                         !hints-replan, !hints-end, !compute, !program, !program-end or !send";
            return Err(format!("one of {known}, found {}", quoted(line)));
        }
    };
    arguments(text, &words).map_err(|why| format!("`{usage}` with {why}, found {}", quoted(line)))
}

/// The arguments of a known directive, or what one of them has to be.
fn arguments(text: &str, words: &[&str]) -> Result<Directive, String> {
    match *words {
        ["!policy", tenant, prio, name] => {
            let expected = |unknown: UnknownName| format!("a known NAME, one of {}", unknown.known.join(" "));
            let policy = name.parse::<PolicyKind>().map_err(expected)?;
            Ok(Directive::Policy { tenant: parse_tenant(tenant)?, prio: parse_prio(prio)?, policy })
        }
        ["!priority", tenant, first, last, prio] => {
            let (first, last) = parse_range(first, last)?;
            Ok(Directive::Priority { tenant: parse_tenant(tenant)?, first, last, prio: parse_prio(prio)? })
        }
        ["!temp", tenant, first, last, prio] => {
            let (first, last) = parse_range(first, last)?;
            let (tenant, prio) = (parse_tenant(tenant)?, parse_prio(prio)?);
            Ok(Directive::TemporaryPriority { tenant, first, last, prio })
        }
        ["!file", first, last, name, ..] => {
            let (first, last) = parse_range(first, last)?;
            Ok(Directive::File { first, last, name: parse_rest("NAME", text, name)? })
        }
        ["!program", tenant, file, ..] => {
            Ok(Directive::Program { tenant: parse_tenant(tenant)?, file: parse_rest("FILE", text, file)? })
        }
        ["!program-end", tenant] => Ok(Directive::ProgramEnd { tenant: parse_tenant(tenant)? }),
        ["!send", tenant, slot, value] => {
            let value =
                value.parse().map_err(|_| "VALUE a decimal number from -2^63 to 2^63 - 1".to_owned())?;
            Ok(Directive::Send { tenant: parse_tenant(tenant)?, slot: slot.to_owned(), value })
        }
        ["!pin", block] => Ok(Directive::Pin(parse_block("BLOCK", block)?)),
        ["!unpin", block] => Ok(Directive::Unpin(parse_block("BLOCK", block)?)),
        ["!create", block] => Ok(Directive::Create(parse_block("BLOCK", block)?)),
        ["!hint", tenant, first, last] => {
            let (first, last) = parse_range(first, last)?;
            Ok(Directive::Hint { tenant: parse_tenant(tenant)?, first, last })
        }
        ["!hints-all", tenant] => Ok(Directive::HintsAll { tenant: parse_tenant(tenant)? }),
        ["!hints-replan", tenant] => Ok(Directive::HintsReplan { tenant: parse_tenant(tenant)? }),
        ["!hints-end", tenant] => Ok(Directive::HintsEnd { tenant: parse_tenant(tenant)? }),
        ["!compute", tenant, ms] => {
            let compute_us = microseconds(ms).ok_or_else(|| {
                "MS a number of milliseconds below 4294967 with at most three decimals".to_owned()
            })?;
            Ok(Directive::Compute { tenant: parse_tenant(tenant)?, compute_us })
        }
        _ => Err("exactly these arguments".to_owned()),
    }
}

/// A name that may contain blanks: the rest of the line, which `first` begins.
fn parse_rest(what: &str, text: &str, first: &str) -> Result<String, String> {
    let rest = text[first.as_ptr() as usize - text.as_ptr() as usize..].trim_end();
    if rest.is_empty() { Err(format!("a {what} that is more than white space")) } else { Ok(rest.to_owned()) }
}

fn parse_tenant(word: &str) -> Result<u32, String> {
    let tenant = number(word.as_bytes()).and_then(|value| u32::try_from(value).ok());
    tenant.ok_or_else(|| "TENANT an unsigned decimal below 2^32".to_owned())
}

fn parse_block(name: &str, word: &str) -> Result<u64, String> {
    number(word.as_bytes()).ok_or_else(|| format!("{name} an unsigned decimal below 2^64"))
}

fn parse_range(first: &str, last: &str) -> Result<(u64, u64), String> {
    let (first, last) = (parse_block("FIRST", first)?, parse_block("LAST", last)?);
    if first <= last { Ok((first, last)) } else { Err("FIRST not above LAST".to_owned()) }
}

fn parse_prio(word: &str) -> Result<i32, String> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let magnitude = number(digits.as_bytes()).filter(|&magnitude| magnitude <= 32).map(|value| value as i32);
    let prio = magnitude.map(|value| if digits.len() < word.len() { -value } else { value });
    prio.filter(|prio| (-32..=31).contains(prio)).ok_or_else(|| "PRIO in -32..=31".to_owned())
}

/// The microseconds of a number of milliseconds with at most three decimals, such as `0.92`. `None` for
/// anything else, and for 2^32 microseconds or more.
pub fn microseconds(ms: &str) -> Option<u32> {
    let (whole, decimals) = ms.split_once('.').unwrap_or((ms, "0"));
    if decimals.len() > 3 {
        return None;
    }
    let thousandths = number(format!("{decimals:0<3}").as_bytes()).filter(|_| !decimals.is_empty())?;
    let us = number(whole.as_bytes())?.checked_mul(1000)?.checked_add(thousandths)?;
    u32::try_from(us).ok()
}

/// A number of microseconds, written in milliseconds as [`microseconds`] reads it.
pub fn milliseconds(us: u32) -> String {
    let text = format!("{}.{:03}", us / 1000, us % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Fields between tabs and blanks.
fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b' ' || byte == b'\t').filter(|field| !field.is_empty())
}

/// The value of an unsigned decimal below 2^64; `None` if there is any other character than a digit.
pub fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The line as it appears in a message: in backquotes, cut after 60 bytes, bytes that are not printable ASCII
/// escaped.
pub fn quoted(line: &[u8]) -> String {
    const SHOWN_BYTES: usize = 60;
    let shown = &line[..line.len().min(SHOWN_BYTES)];
    let dots = if shown.len() < line.len() { "..." } else { "" };
    format!("`{}{dots}`", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(block: u64, site: u32, tenant: u32) -> Result<Option<Item>, String> {
        Ok(Some(Item::Access(Reference { block, site, tenant })))
    }

    fn directive(line: &str) -> Directive {
        match parse(line.as_bytes()) {
            Ok(Some(Item::Directive(directive))) => directive,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn accesses_have_one_to_three_columns() {
        assert_eq!(parse(b"7"), access(7, 0, 0));
        assert_eq!(parse(b"7\t3"), access(7, 3, 0));
        assert_eq!(parse(b"  7  3\t 9 "), access(7, 3, 9));
        assert_eq!(
            parse(b"18446744073709551615 4294967295 4294967295"),
            access(u64::MAX, u32::MAX, u32::MAX)
        );
        assert_eq!(parse(b"# 1 2 3"), Ok(None));
    }

    #[test]
    fn directives_are_read_with_their_arguments() {
        let policy = PolicyKind::Mru;
        assert_eq!(directive("!policy 1 -32 mru"), Directive::Policy { tenant: 1, prio: -32, policy });
        assert_eq!(
            directive("!priority 0 5 9 31"),
            Directive::Priority { tenant: 0, first: 5, last: 9, prio: 31 }
        );
        assert_eq!(
            directive("!temp\t2 5 5 -1"),
            Directive::TemporaryPriority { tenant: 2, first: 5, last: 5, prio: -1 }
        );
        assert_eq!(
            directive("!file 0 10 a name "),
            Directive::File { first: 0, last: 10, name: "a name".to_owned() }
        );
        assert_eq!(directive("!pin 4"), Directive::Pin(4));
        assert_eq!(directive("!unpin 4"), Directive::Unpin(4));
        assert_eq!(directive("!create 4"), Directive::Create(4));
        assert_eq!(directive("!hint 3 5 9"), Directive::Hint { tenant: 3, first: 5, last: 9 });
        assert_eq!(directive("!hints-all 2"), Directive::HintsAll { tenant: 2 });
        assert_eq!(directive("!hints-end 2"), Directive::HintsEnd { tenant: 2 });
        let file = "a file.policy".to_owned();
        assert_eq!(directive("!program 3 a file.policy "), Directive::Program { tenant: 3, file });
        assert_eq!(directive("!program-end 3"), Directive::ProgramEnd { tenant: 3 });
        let slot = "target".to_owned();
        assert_eq!(directive("!send 3 target -7"), Directive::Send { tenant: 3, slot, value: -7 });
        for (ms, compute_us) in [("5", 5000), ("0.92", 920), ("0.001", 1), ("10.50", 10_500), ("0", 0)] {
            assert_eq!(directive(&format!("!compute 1 {ms}")), Directive::Compute { tenant: 1, compute_us });
            assert_eq!(microseconds(&milliseconds(compute_us)), Some(compute_us));
        }
    }

    #[test]
    fn malformed_lines_say_what_was_expected() {
        for (line, expected) in [
            ("", "`block [site [tenant]]`"),
            ("   ", "`block [site [tenant]]`"),
            ("x", "`block [site [tenant]]`"),
            ("-1", "`block [site [tenant]]`"),
            ("1.5", "a block"),
            ("7\r", "a block"),
            ("18446744073709551616", "a block"),
            ("1 x", "a site"),
            ("1 4294967296", "a site"),
            ("1 2 -3", "a tenant"),
            ("1 2 3 4", "at most three columns"),
            ("!evict 3", "one of !policy"),
            ("!policy 0 0", "`!policy TENANT PRIO NAME` with exactly these arguments"),
            ("!policy 0 32 lru", "PRIO in -32..=31"),
            ("!policy 0 -33 lru", "PRIO in -32..=31"),
            ("!policy 0 --1 lru", "PRIO in -32..=31"),
            ("!policy 0 0 opt", "a known NAME"),
            ("!priority 0 9 5 1", "FIRST not above LAST"),
            ("!temp x 5 9 1", "TENANT"),
            ("!file 5 9", "exactly these arguments"),
            ("!file 5 9 \u{b}", "a NAME"),
            ("!pin", "exactly these arguments"),
            ("!unpin 1 2", "exactly these arguments"),
            ("!create", "exactly these arguments"),
            ("!hint 0 9 5", "FIRST not above LAST"),
            ("!hint 0 9", "`!hint TENANT FIRST LAST` with exactly these arguments"),
            ("!hints-all", "exactly these arguments"),
            ("!program 1", "`!program TENANT FILE` with exactly these arguments"),
            ("!program x a.policy", "TENANT"),
            ("!program-end", "exactly these arguments"),
            ("!send 1 target", "`!send TENANT SLOT VALUE` with exactly these arguments"),
            ("!send 1 target x", "VALUE a decimal number"),
            ("!hints-all x", "TENANT"),
            ("!compute 0 1.2345", "MS a number of milliseconds"),
            ("!compute 0 -1", "MS a number of milliseconds"),
            ("!compute 0 1.", "MS a number of milliseconds"),
            ("!compute 0 .5", "MS a number of milliseconds"),
            ("!compute 0 4294968", "MS a number of milliseconds"),
        ] {
            let message = parse(line.as_bytes()).expect_err(line);
            assert!(message.contains(expected), "{line:?}: {message}");
        }
    }

    #[test]
    fn messages_show_a_bounded_part_of_the_line() {
        let message = parse(&[0xff; 5000]).unwrap_err();
        assert!(message.len() < 400 && message.contains("\\xff") && message.contains("..."), "{message}");
    }
}
