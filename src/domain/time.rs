//! Points in time, as whole microseconds. The orchestrator reads the clock and passes the time in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment in UTC with microsecond precision, written `2026-11-16T01:02:03.456789Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

/// Text that is not a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a time (RFC 3339 is expected, such as 2026-11-16T01:02:03Z)")]
pub struct NotATime {
    pub(crate) text: String,
}

impl Timestamp {
    /// The moment this many microseconds after the epoch; out of range clamps to the ends of the calendar.
    pub fn from_micros(micros: i64) -> Self {
        let end = if micros < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        Self(jiff::Timestamp::from_microsecond(micros).unwrap_or(end))
    }

    /// Microseconds after the epoch.
    pub fn as_micros(self) -> i64 {
        self.0.as_microsecond()
    }

    /// This moment plus whole seconds.
    #[must_use]
    pub fn plus_seconds(self, seconds: u64) -> Self {
        let micros = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        Self::from_micros(self.as_micros().saturating_add(micros))
    }

    /// This moment less whole seconds.
    #[must_use]
    pub fn minus_seconds(self, seconds: u64) -> Self {
        let micros = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        Self::from_micros(self.as_micros().saturating_sub(micros))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        match text.parse::<jiff::Timestamp>() {
            Ok(parsed) => Ok(Self::from_micros(parsed.as_microsecond())),
            Err(_) if is_at_the_end(text) => Ok(Self::from_micros(i64::MAX)),
            Err(_) => Err(NotATime { text: text.chars().take(64).collect() }),
        }
    }
}

/// Whether it is one of the last moments of the calendar, by which people mean no end. The library stops a day before.
fn is_at_the_end(text: &str) -> bool {
    let pieces = jiff::fmt::temporal::Pieces::parse(text);
    let last_days = jiff::civil::date(9999, 12, 30);
    pieces.is_ok_and(|it| it.date() >= last_days && it.time().is_some() && it.offset().is_some())
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_with_six_digits_and_reads_back() {
        let moment = Timestamp::from_micros(1_794_790_923_456_700);
        assert_eq!(moment.to_string(), "2026-11-16T01:02:03.456700Z");
        assert_eq!(moment.to_string().parse(), Ok(moment));
        assert_eq!("2026-11-16T02:02:03.4567+01:00".parse(), Ok(moment));
        assert_eq!("yesterday".parse::<Timestamp>(), Err(NotATime { text: "yesterday".into() }));
        let end = Timestamp::from_micros(i64::MAX);
        for text in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999-12:00", "9999-12-30T23:00:00Z"] {
            assert_eq!(text.parse(), Ok(end), "{text}");
        }
        for text in ["9999-12-31T23:59:59", "9999-12-31", "9999-13-31T23:59:59Z", "10000-01-01T00:00:00Z"] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }
}
