//! Cache sizes as users give them: frames, or a percentage of a trace's distinct blocks.

use std::fmt;
use std::str::FromStr;

/// A cache size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Size {
    /// A number of frames, at least 1.
    Frames(u32),
    /// A percentage of the distinct blocks, above 0 and at most 10^6.
    Percent(f64),
}

impl Size {
    /// The size in frames for a trace with `distinct` distinct blocks. Percentages are rounded to the nearest
    /// frame, and give at least 1.
    pub fn frames(self, distinct: u64) -> u32 {
        match self {
            Self::Frames(frames) => frames,
            // Beyond 2^32 frames the conversion saturates.
            Self::Percent(percent) => ((percent / 100.0 * distinct as f64).round() as u32).max(1),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames(frames) => write!(f, "{frames}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = match text.strip_suffix('%') {
            Some(number) => {
                number.parse().ok().filter(|&percent| percent > 0.0 && percent <= 1e6).map(Self::Percent)
            }
            None => text.parse().ok().filter(|&frames| frames > 0).map(Self::Frames),
        };
        size.ok_or_else(|| {
            format!(
                "expected a number of frames from 1 to {} such as 100, or a share of the blocks such as 5%",
                u32::MAX
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_frames_or_shares() {
        assert_eq!("100".parse(), Ok(Size::Frames(100)));
        assert_eq!("0.5%".parse(), Ok(Size::Percent(0.5)));
        for text in ["0", "-1", "x", "", "%", "0%", "-5%", "1.5", "4294967296", "NaN%", "inf%"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_rounded_to_nearest_and_at_least_one() {
        let frames = |percent, distinct| Size::Percent(percent).frames(distinct);
        assert_eq!(
            [frames(5.0, 1409), frames(10.0, 1409), frames(0.1, 10), frames(50.0, 3)],
            [70, 141, 1, 2]
        );
        assert_eq!(Size::Frames(7).frames(3), 7);
    }
}
