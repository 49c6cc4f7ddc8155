//! JSON values for other formats. serde_json keeps numbers as they were written, in a form that it alone reads.

use serde::{Serialize, Serializer};
use serde_json::{Number, Value};

/// Decimal digits after which a number may no longer be the same as a float.
const FLOAT_DIGITS: usize = 17;

/// A value whose numbers are integers and floats to every format. A number that neither can hold is a text with its digits.
pub(crate) struct Plain<'a>(pub(crate) &'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(flag) => serializer.serialize_bool(*flag),
            Value::Number(number) => plain_number(number, serializer),
            Value::String(text) => serializer.serialize_str(text),
            Value::Array(items) => serializer.collect_seq(items.iter().map(Plain)),
            Value::Object(entries) => serializer.collect_map(entries.iter().map(|(key, value)| (key, Plain(value)))),
        }
    }
}

fn plain_number<S: Serializer>(number: &Number, serializer: S) -> Result<S::Ok, S::Error> {
    if let Some(whole) = number.as_i64() {
        return serializer.serialize_i64(whole);
    }
    if let Some(whole) = number.as_i128() {
        return serializer.serialize_i128(whole);
    }
    match number.as_f64().filter(|float| float.is_finite() && digits(number.as_str()) <= FLOAT_DIGITS) {
        Some(float) => serializer.serialize_f64(float),
        None => serializer.serialize_str(number.as_str()),
    }
}

/// The digits of a number that count, without its exponent.
fn digits(written: &str) -> usize {
    let mantissa = written.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_get_plain_numbers_and_the_digits_of_those_that_no_float_holds() {
        let written = r#"{
            "whole": -7, "large": 18446744073709551615, "huge": 12345678901234567890123,
            "float": 1.50, "power": 25e-1, "fine": 0.1000000000000000055511151231257827, "vast": 1e999,
            "list": [null, true, "x"]
        }"#;
        let value: Value = serde_json::from_str(written).unwrap();
        let expected = "whole: -7\nlarge: 18446744073709551615\nhuge: 12345678901234567890123\nfloat: 1.5\npower: 2.5\n\
            fine: '0.1000000000000000055511151231257827'\nvast: 1e+999\nlist:\n- null\n- true\n- x\n";
        assert_eq!(serde_norway::to_string(&Plain(&value)).unwrap(), expected);
    }
}
