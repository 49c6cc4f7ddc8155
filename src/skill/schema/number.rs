//! How much work a number is, and its one form among all that mean the same.
//!
//! The library computes with as many digits as a number has when it is written out, up to 10 000: `1e-9990` is a short text and a long number.

use serde_json::Number;

/// Digits of a number that is computed with like any other.
const FEW_DIGITS: u64 = 20;
/// The library writes no more digits out; a longer number is compared as a text.
const MANY_DIGITS: u64 = 10_000;

/// Squares of digits that are computed with in the time of one step.
const DIGITS_SQUARED_PER_STEP: u64 = 100;

/// Steps to compute once with a number, beyond those of a short one. Time grows with the square of the digits.
pub(super) fn steps(number: &Number) -> u64 {
    let written = number.as_str();
    let length = count(written.len());
    let digits = Decimal::of(written).map_or(u64::MAX, |decimal| decimal.written_out());
    if digits <= FEW_DIGITS {
        return 0;
    }
    let squared = digits.min(MANY_DIGITS).pow(2) / DIGITS_SQUARED_PER_STEP;
    1 + squared + length / 16
}

/// The digits of a number, and where its point is.
#[derive(Debug, PartialEq, Eq)]
struct Decimal<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// A number of JSON; `None` if its exponent is beyond all measure.
    fn of(text: &'a str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent: i32 = exponent.parse().ok()?;
        Some(Self { negative, whole, fraction, exponent: exponent.into() })
    }

    fn written_out(&self) -> u64 {
        let shift = self.exponent.saturating_sub_unsigned(count(self.fraction.len())).unsigned_abs();
        shift.saturating_add(count(self.whole.len() + self.fraction.len()))
    }
}

/// Adds the one form that a number has in common with all that are equal to it.
pub(super) fn add_canonical(number: &Number, to: &mut Vec<u8>) {
    let text = number.as_str();
    let Some(decimal) = Decimal::of(text) else {
        to.extend_from_slice(text.as_bytes());
        return;
    };
    let start = to.len();
    to.push(if decimal.negative { b'-' } else { b'+' });
    let digits = decimal.whole.bytes().chain(decimal.fraction.bytes());
    to.extend(digits.skip_while(|digit| *digit == b'0'));
    let mut exponent = decimal.exponent.saturating_sub_unsigned(count(decimal.fraction.len()));
    while to.last() == Some(&b'0') {
        to.pop();
        exponent = exponent.saturating_add(1);
    }
    if to.len() == start + 1 {
        // Zero has no sign and no exponent.
        to.truncate(start);
        to.push(b'0');
    } else {
        to.push(b'e');
        to.extend_from_slice(exponent.to_string().as_bytes());
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        serde_json::from_str(text).unwrap()
    }

    fn canonical(text: &str) -> String {
        let mut form = Vec::new();
        add_canonical(&number(text), &mut form);
        String::from_utf8(form).unwrap()
    }

    #[test]
    fn equal_numbers_have_one_form_and_others_another() {
        for (text, form) in [
            ("0", "0"),
            ("-0.00e7", "0"),
            ("1", "+1e0"),
            ("1.0", "+1e0"),
            ("10E-1", "+1e0"),
            ("-150", "-15e1"),
            ("-1.5e+2", "-15e1"),
            ("0.0015", "+15e-4"),
            ("10000000000000000000000001", "+10000000000000000000000001e0"),
            ("1e400", "+1e400"),
            ("1e99999999999999999999", "1e+99999999999999999999"),
        ] {
            assert_eq!(canonical(text), form, "{text}");
        }
    }

    #[test]
    fn a_number_costs_by_the_digits_that_it_has_when_written_out() {
        for text in ["0", "-1", "18446744073709551615", "3.14159", "1e15", "1.5e-15"] {
            assert_eq!(steps(&number(text)), 0, "{text}");
        }
        let costs = |text: &str| steps(&number(text));
        assert!(costs("1e-9990") > 1000 * costs("1e-100"), "{} {}", costs("1e-9990"), costs("1e-100"));
        assert!(costs(&"9".repeat(9990)) > 1000);
        assert!(costs("1e999999999") > 1000);
        assert!(costs("1e99999999999999999999999") > 1000);
        assert!(costs(&"9".repeat(1_000_000)) > 60_000);
    }
}
