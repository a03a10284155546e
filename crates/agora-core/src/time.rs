//! Moments, and where they come from.

use std::fmt;
use std::str::FromStr;

use crate::text::serde_as_text;

/// A moment in UTC, to the millisecond, counted from 1970. Its text has one width, so that texts sort as moments do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Says why a text is not a moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a time like 2026-11-15T19:00:00Z")]
pub struct TimeParseError {
    text: String,
}

/// The last moment that has a text: what `jiff` says is the last.
const LAST_MILLIS: i64 = 253_402_207_200_999;

const DAY_MILLIS: i64 = 86_400_000;

/// The days from the first of March of the year 0 to 1970.
const DAYS_TO_1970: i64 = 719_468;

/// The days of 400 years, after which the calendar begins anew.
const DAYS_OF_400_YEARS: u32 = 146_097;

impl Timestamp {
    /// Makes a moment from milliseconds since 1970; what is out of range becomes the nearest moment that has a text.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(0, LAST_MILLIS))
    }

    /// Returns the milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the moment so much later.
    pub fn plus(self, duration: std::time::Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.as_millis().saturating_add(millis))
    }
}

/// Lists hold thousands of moments, so they are written digit by digit, without a calendar's generality.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, in_day) = (self.0 / DAY_MILLIS, self.0 % DAY_MILLIS);
        let (year, month, day) = date(days);
        // Less than a day.
        let in_day = in_day as u32;
        let mut text = *b"0000-00-00T00:00:00.000Z";
        digits(&mut text[..4], year);
        digits(&mut text[5..7], month);
        digits(&mut text[8..10], day);
        digits(&mut text[11..13], in_day / 3_600_000);
        digits(&mut text[14..16], in_day / 60_000 % 60);
        digits(&mut text[17..19], in_day / 1000 % 60);
        digits(&mut text[20..23], in_day % 1000);
        // Only ASCII was written.
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

/// Returns the year, the month and the day that is so many days after the first of 1970. Years begin in March here, so that the day which
/// not every year has is their last.
fn date(days: i64) -> (u32, u32, u32) {
    // From 1970 to 9999 there are fewer than three million days. Small numbers without a sign are divided soonest.
    let days = (days + DAYS_TO_1970) as u32;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

/// Returns how many days a date is after the first of 1970.
fn days(year: u32, month: u32, day: u32) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    i64::from(days) - 1 - DAYS_TO_1970
}

/// Writes a number into all of the room, with zeros before it.
fn digits(room: &mut [u8], number: u32) {
    let mut rest = number;
    for place in room.iter_mut().rev() {
        // Below ten.
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads a moment as `Display` writes it. `None`: it is written otherwise, or there is no such moment.
fn own_form(text: &str) -> Option<Timestamp> {
    let bytes: &[u8; 24] = text.as_bytes().try_into().ok()?;
    let number = |range: std::ops::Range<usize>| {
        bytes[range]
            .iter()
            .try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u32::from(byte - b'0')))
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
    if marks.iter().any(|(place, mark)| bytes[*place] != *mark) {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if year < 1970 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days(year, month, day);
    let in_day = ((hour * 60 + minute) * 60 + second) * 1000 + number(20..23)?;
    let millis = days * DAY_MILLIS + i64::from(in_day);
    // A day that the month does not have would be one of the next.
    (date(days) == (year, month, day) && millis <= LAST_MILLIS).then_some(Timestamp(millis))
}

impl FromStr for Timestamp {
    type Err = TimeParseError;

    fn from_str(text: &str) -> Result<Self, TimeParseError> {
        if let Some(moment) = own_form(text) {
            return Ok(moment);
        }
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
    use proptest::prelude::*;

    use super::*;

    /// What a calendar makes of a moment.
    fn by_calendar(millis: i64) -> String {
        format!("{:.3}", jiff::Timestamp::from_millisecond(millis).unwrap())
    }

    #[test]
    fn every_day_has_the_text_that_a_calendar_gives_it() {
        assert_eq!(LAST_MILLIS, jiff::Timestamp::MAX.as_millisecond());
        // After 400 years the calendar begins anew.
        for day in 0..=i64::from(DAYS_OF_400_YEARS) + 366 {
            let moment = Timestamp::from_millis(day * DAY_MILLIS + day % DAY_MILLIS);
            let text = by_calendar(moment.as_millis());
            assert_eq!(moment.to_string(), text);
            assert_eq!(own_form(&text), Some(moment));
        }
    }

    proptest! {
        #[test]
        fn moments_are_written_and_read_as_a_calendar_does(millis in 0..=LAST_MILLIS) {
            let moment = Timestamp::from_millis(millis);
            prop_assert_eq!(moment.to_string(), by_calendar(millis));
            prop_assert_eq!(moment.to_string().parse(), Ok(moment));
        }

        #[test]
        fn what_is_read_is_what_a_calendar_reads(text in "(19[67][0-9]|20[0-9]{2}|9999|0000)-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]\\.[0-9]{3}Z") {
            let read = text.parse::<jiff::Timestamp>().ok().map(|moment| moment.as_millisecond());
            let own = own_form(&text).map(Timestamp::as_millis);
            // What it does not read is left to the calendar.
            prop_assert!(own.is_none() || own == read, "{} {:?} {:?}", text, own, read);
            prop_assert_eq!(text.parse::<Timestamp>().ok().map(Timestamp::as_millis), read.filter(|millis| *millis >= 0));
        }
    }

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
