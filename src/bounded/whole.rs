//! Whole numbers of JSON, also those with a fraction of zero or an exponent (`39.0`, `4e2`): to JSON Schema they are integers.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// The largest float up to which each whole number is one.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A kind of whole number, named as serde names it in messages.
pub(crate) trait Kind: TryFrom<i128> {
    const NAME: &'static str;
}

impl Kind for i8 {
    const NAME: &'static str = "i8";
}

impl Kind for u32 {
    const NAME: &'static str = "u32";
}

impl Kind for u64 {
    const NAME: &'static str = "u64";
}

impl Kind for usize {
    const NAME: &'static str = "usize";
}

/// Reads a number; for `deserialize_with`.
pub(crate) fn number<'de, T: Kind, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Whole::deserialize(deserializer).map(|Whole(number)| number)
}

/// Reads a number or null; for `deserialize_with`.
pub(crate) fn optional<'de, T: Kind, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer).map(|read| read.map(|Whole(number)| number))
}

#[derive(Debug)]
pub(crate) struct Whole<T>(pub(crate) T);

impl<'de, T: Kind> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_i64(Number(PhantomData)).map(Whole)
    }
}

struct Number<T>(PhantomData<T>);

impl<T: Kind> Number<T> {
    fn fit<E: Error>(&self, number: impl Into<i128>, shown: Unexpected<'_>) -> Result<T, E> {
        T::try_from(number.into()).map_err(|_| E::invalid_value(shown, self))
    }
}

impl<T: Kind> Visitor<'_> for Number<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::NAME)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.fit(number, Unexpected::Signed(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.fit(number, Unexpected::Unsigned(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        let shown = Unexpected::Float(number);
        let is_whole = number.fract() == 0.0 && number.abs() <= EXACT_MAX;
        let whole: Option<i128> = is_whole.then(|| format!("{number:.0}").parse().ok()).flatten();
        self.fit(whole.ok_or_else(|| E::invalid_type(shown, &self))?, shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Kind>(text: &str) -> Result<T, String> {
        serde_json::from_str::<Whole<T>>(text).map(|Whole(number)| number).map_err(|error| error.to_string())
    }

    #[test]
    fn what_json_schema_calls_an_integer_is_one() {
        for text in ["39", "39.0", "3.9e1", "390e-1", "39.000"] {
            assert_eq!(read::<u64>(text), Ok(39), "{text}");
        }
        assert_eq!((read::<i8>("-128.0"), read::<i8>("-0.0"), read::<u32>("4e2")), (Ok(-128), Ok(0), Ok(400)));
        assert_eq!(read::<u64>("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(read::<u64>("9007199254740992.0"), Ok(1 << 53));
    }

    #[test]
    fn what_is_none_or_does_not_fit_is_refused_as_serde_refuses_it() {
        for text in ["39.5", "-1", "-1.0", "1e300", "\"39\"", "null", "true", "[39]", "18446744073709551616"] {
            let plain = serde_json::from_str::<u64>(text).unwrap_err().to_string();
            let refused = read::<u64>(text).unwrap_err();
            assert_eq!(refused.split(" expected ").nth(1), plain.split(" expected ").nth(1), "{text}");
        }
        assert!(read::<i8>("128").unwrap_err().starts_with("invalid value: integer `128`, expected i8"));
    }
}
