//! A 64-bit hash of a page, to detect bytes that a tier has mixed up. It is no defence against an attacker.

const MULTIPLIERS: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// Folds the product: every bit of both factors influences most bits of the result.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// The hash of bytes whose number is a multiple of 32, as that of a page is.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len().is_multiple_of(32));
    let (mut left, mut right) = (bytes.len() as u64 ^ MULTIPLIERS[0], MULTIPLIERS[1]);
    for chunk in bytes.chunks_exact(32) {
        let word = |at: usize| {
            let word = chunk[8 * at..8 * (at + 1)].try_into().expect("eight bytes");
            u64::from_le_bytes(word)
        };
        left = fold(word(0) ^ MULTIPLIERS[0] ^ left, word(1) ^ MULTIPLIERS[1]);
        right = fold(word(2) ^ MULTIPLIERS[2] ^ right, word(3) ^ MULTIPLIERS[3]);
    }
    fold(left ^ MULTIPLIERS[2], right ^ MULTIPLIERS[3])
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_bit_and_every_place_counts() {
        let page = vec![0_u8; 4096];
        let mut seen = std::collections::HashSet::from([hash(&page)]);
        for byte in 0..page.len() {
            for bit in [0, 7] {
                let mut changed = page.clone();
                changed[byte] ^= 1 << bit;
                assert!(seen.insert(hash(&changed)), "byte {byte}, bit {bit}");
            }
        }
        assert!(seen.insert(hash(&page[..2048])), "the length counts");
    }
}
