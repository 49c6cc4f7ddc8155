//! How long something takes, as people type it: 30s, 15m, 2h, 7d.

/// The seconds of a whole number with its unit; `None` for any other text.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return None,
    };
    // A sign is no part of a number of hours.
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse::<u32>().ok().filter(|_| digits).map(|number| u64::from(number) * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_a_whole_number_with_its_unit() {
        let all = ["30s", "15m", "12h", "90d", "0d", "4294967295d"].map(seconds);
        assert_eq!(all, [30, 900, 43_200, 7_776_000, 0, 4_294_967_295 * 86_400].map(Some));
        for wrong in ["", "s", "2", "2w", "-1h", "+1h", "1.5h", " 1h", "2 h", "9é", "ä", "4294967296d"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
