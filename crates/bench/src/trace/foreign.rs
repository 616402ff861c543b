//! One record of the formats that other tools write.

use super::text::{number, quoted};

/// Bytes of an oracleGeneral record.
pub const ORACLE_RECORD_BYTES: usize = 24;

/// The block of an oracleGeneral record (libCacheSim): time u32, object u64, size u32, next access i64,
/// packed, little endian. Times and sizes are not used: every object counts as one block.
pub fn oracle_block(record: &[u8; ORACLE_RECORD_BYTES]) -> u64 {
    u64::from_le_bytes(record[4..12].try_into().expect("eight bytes"))
}

/// The most blocks that one line of an ARC trace may stand for: 512 MiB of the 512-byte blocks of these
/// traces. It bounds the work of a reader by the length of the file.
pub const ARC_BLOCKS_MAX: u64 = 1 << 20;

/// First block and number of blocks of a line `start count ignore id` (the format of the ARC paper's traces).
///
/// # Errors
///
/// What was expected instead.
pub fn arc_range(line: &[u8]) -> Result<(u64, u64), String> {
    let fields: Vec<Option<u64>> =
        line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).map(number).collect();
    match fields[..] {
        [Some(start), Some(count), Some(_), Some(_)]
            if (1..=ARC_BLOCKS_MAX).contains(&count) && start.checked_add(count - 1).is_some() =>
        {
            Ok((start, count))
        }
        _ => Err(format!(
            "`start count ignore id`, four unsigned decimals with count from 1 to {ARC_BLOCKS_MAX} and start + count \
             at most 2^64, found {}",
            quoted(line)
        )),
    }
}

/// The block of a line with one number, `None` for a line `*` (the format of the LIRS paper's traces).
///
/// # Errors
///
/// What was expected instead.
pub fn lirs_block(line: &[u8]) -> Result<Option<u64>, String> {
    match line.trim_ascii() {
        b"*" => Ok(None),
        digits => number(digits)
            .map(Some)
            .ok_or_else(|| format!("one unsigned decimal or `*`, found {}", quoted(line))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oracle_record_keeps_its_block_in_bytes_four_to_eleven() {
        let mut record = [0xee; ORACLE_RECORD_BYTES];
        record[4..12].copy_from_slice(&0x0123_4567_89ab_cdef_u64.to_le_bytes());
        assert_eq!(oracle_block(&record), 0x0123_4567_89ab_cdef);
    }

    #[test]
    fn arc_lines_are_ranges() {
        assert_eq!(arc_range(b"100 8 0 1"), Ok((100, 8)));
        assert_eq!(arc_range(b"18446744073709551615 1 0 1\r"), Ok((u64::MAX, 1)));
        for line in
            ["", "1 2 3", "1 2 3 4 5", "1 0 0 1", "18446744073709551615 2 0 1", "0 1048577 0 1", "a 1 0 1"]
        {
            assert!(arc_range(line.as_bytes()).unwrap_err().contains("start count"), "{line}");
        }
    }

    #[test]
    fn lirs_lines_are_blocks_or_stars() {
        assert_eq!(lirs_block(b" 12 "), Ok(Some(12)));
        assert_eq!(lirs_block(b"*"), Ok(None));
        for line in ["", "**", "1 2", "-1"] {
            assert!(lirs_block(line.as_bytes()).is_err(), "{line}");
        }
    }
}
