//! Moments, and where they come from.

use std::fmt;
use std::str::FromStr;

use crate::text::serde_as_text;

/// A moment in UTC, to the millisecond. Its text has one width, so that texts sort as moments do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

/// Says why a text is not a moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a time like 2026-11-15T19:00:00Z")]
pub struct TimeParseError {
    text: String,
}

impl Timestamp {
    /// Makes a moment from milliseconds since 1970; what is out of range becomes the nearest moment that has a text.
    pub fn from_millis(millis: i64) -> Self {
        let last = jiff::Timestamp::MAX.as_millisecond();
        let clamped = millis.clamp(0, last);
        Self(jiff::Timestamp::from_millisecond(clamped).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }

    /// Returns the milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0.as_millisecond()
    }

    /// Returns the moment so much later.
    pub fn plus(self, duration: std::time::Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.as_millis().saturating_add(millis))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = TimeParseError;

    fn from_str(text: &str) -> Result<Self, TimeParseError> {
        match text.parse::<jiff::Timestamp>() {
            Ok(moment) if moment.as_millisecond() >= 0 => Ok(Self::from_millis(moment.as_millisecond())),
            _ => Err(TimeParseError { text: text.chars().take(64).collect() }),
        }
    }
}

serde_as_text!(Timestamp);

/// Where the time comes from, so that a test can fix it.
pub trait Clock: fmt::Debug + Send + Sync {
    fn now(&self) -> Timestamp;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_one_width_and_parses_back() {
        for millis in [0, 1, 1_763_233_200_000, 1_763_233_200_120, 253_402_207_200_999] {
            let moment = Timestamp::from_millis(millis);
            let text = moment.to_string();
            assert_eq!(text.len(), "2026-11-15T19:00:00.000Z".len(), "{text}");
            assert_eq!(text.parse(), Ok(moment));
        }
    }

    #[test]
    fn an_offset_is_the_same_moment() {
        let utc: Timestamp = "2026-11-15T19:00:00Z".parse().unwrap();
        assert_eq!("2026-11-15T20:00:00+01:00".parse(), Ok(utc));
        assert!("2026-11-15".parse::<Timestamp>().is_err());
        assert!(
            "2026-11-15T19:00:00".parse::<Timestamp>().is_err(),
            "a time without an offset is nobody's time"
        );
        assert!("yesterday".parse::<Timestamp>().is_err());
    }
}
