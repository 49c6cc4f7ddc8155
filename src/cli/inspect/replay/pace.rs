//! The pauses of a recording.

use std::str::FromStr;
use std::time::Duration;

use crate::domain::time::Timestamp;

/// Longer pauses are cut to this.
const LONGEST: Duration = Duration::from_secs(10);

/// How much faster than recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speed {
    Max,
    Times(f64),
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let times = text.parse().ok().filter(|times: &f64| times.is_finite() && *times > 0.0);
        times.map(Self::Times).ok_or_else(|| "must be a number above 0, or max".to_owned())
    }
}

/// Computes the pauses between events.
#[derive(Debug)]
pub(crate) struct Pace {
    speed: Speed,
    last: Option<Timestamp>,
}

impl Pace {
    pub(crate) fn new(speed: Speed) -> Self {
        Self { speed, last: None }
    }

    /// How long to wait before the event of this moment.
    pub(crate) fn pause_before(&mut self, ts: Timestamp) -> Duration {
        let last = self.last.replace(ts).unwrap_or(ts);
        let micros = u64::try_from(ts.as_micros().saturating_sub(last.as_micros())).unwrap_or_default();
        match self.speed {
            Speed::Max => Duration::ZERO,
            Speed::Times(times) => {
                let scaled = Duration::try_from_secs_f64(Duration::from_micros(micros).as_secs_f64() / times);
                scaled.unwrap_or(LONGEST).min(LONGEST)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_scaled_and_never_too_long() {
        let pauses = |speed: &str| {
            let mut pace = Pace::new(speed.parse().unwrap());
            let moments = [5_000_000, 6_000_000, 6_500_000, 6_400_000, 3_600_000_000];
            moments.map(|micros| pace.pause_before(Timestamp::from_micros(micros)).as_millis())
        };
        assert_eq!(pauses("1"), [0, 1000, 500, 0, 10_000]);
        assert_eq!(pauses("4"), [0, 250, 125, 0, 10_000]);
        assert_eq!(pauses("0.5"), [0, 2000, 1000, 0, 10_000]);
        assert_eq!(pauses("max"), [0; 5]);
        assert_eq!(pauses("1e-300")[1], 10_000);
        for wrong in ["0", "-1", "nan", "inf", "fast", ""] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
    }
}
