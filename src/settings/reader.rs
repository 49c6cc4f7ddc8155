//! Reads typed values with ranges from the layers; a problem is recorded, and reading continues.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::keys;
use super::layers::{Given, Layers, Problem, Source};

/// A setting with its final value, for a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    pub key: String,
    /// Its value; a secret's is masked.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
}

/// Text that is never shown in a log or listing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the one comparison it is kept for.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Secret {
    /// The headers of `name=value,name=value`; `None` if it is something else.
    pub(crate) fn pairs(&self) -> Option<Vec<(String, Secret)>> {
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let pairs = self.0.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=')?;
                let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8().ok()?;
                let is_value = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
                let name = name.trim();
                (is_name(name) && is_value).then(|| (name.to_owned(), Secret(value.into_owned())))
            })
            .collect()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(MASK)
    }
}

pub(super) const MASK: &str = "********";

/// Reads settings one by one and remembers what it found.
pub(crate) struct Reader {
    layers: Layers,
    pub(crate) problems: Vec<Problem>,
    pub(crate) described: Vec<Described>,
}

impl Reader {
    pub(crate) fn new(layers: Layers, problems: Vec<Problem>) -> Self {
        Self { layers, problems, described: Vec::new() }
    }

    /// Records a problem with a setting.
    pub(crate) fn object(&mut self, key: &str, message: String) {
        let source = self.layers.get(key).map_or(&Source::Default, |(_, source)| source);
        self.problems.push(Problem { key: key.to_owned(), place: source.to_string(), message });
    }

    /// A setting as `parse` reads it; the default where it is not given, or is wrong.
    fn read<T>(
        &mut self,
        key: &str,
        default: T,
        show: impl Fn(&T) -> String,
        parse: impl Fn(&Given) -> Result<T, String>,
    ) -> T {
        let (value, source) = match self.layers.get(key) {
            None => (default, Source::Default),
            Some((given, source)) => match parse(given) {
                Ok(value) => (value, source.clone()),
                Err(message) => {
                    self.object(key, message);
                    (default, Source::Default)
                }
            },
        };
        self.described.push(Described { key: key.to_owned(), value: show(&value), source });
        value
    }

    /// A number within its range.
    pub(crate) fn whole<T>(&mut self, key: &str, default: T, range: RangeInclusive<T>) -> T
    where
        T: Copy + PartialOrd + Display + std::str::FromStr,
    {
        self.read(key, default, T::to_string, |given| {
            let text = one(given)?;
            let number = text.parse().ok().filter(|number| range.contains(number));
            number.ok_or_else(|| {
                format!("must be a whole number from {} to {}, not {text:?}", range.start(), range.end())
            })
        })
    }

    /// A number of bytes, such as `1048576` or `1 MiB`.
    pub(crate) fn bytes(&mut self, key: &str, default: u64, range: RangeInclusive<u64>) -> u64 {
        self.read(key, default, u64::to_string, |given| {
            let text = one(given)?;
            bytes_of(text).filter(|bytes| range.contains(bytes)).ok_or_else(|| {
                let (least, most) = (range.start(), range.end());
                format!(
                    "must be {least} to {most} bytes, as a number or with KiB, MiB, GiB, KB, MB or GB; not {text:?}"
                )
            })
        })
    }

    /// One of the named values.
    pub(crate) fn choice<T: Copy + PartialEq>(&mut self, key: &str, default: T, choices: &[(&'static str, T)]) -> T {
        let show = |value: &T| {
            choices.iter().find(|(_, choice)| choice == value).map_or_else(String::new, |(name, _)| (*name).to_owned())
        };
        self.read(key, default, show, |given| {
            let text = one(given)?;
            // `true` and `on` mean the same, as do `false` and `off`.
            let wanted = match text.to_lowercase().as_str() {
                "true" | "yes" | "1" => "on".to_owned(),
                "false" | "no" | "0" => "off".to_owned(),
                other => other.to_owned(),
            };
            choices.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value).ok_or_else(|| {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                format!("must be one of {}, not {text:?}", names.join(", "))
            })
        })
    }

    pub(crate) fn switch(&mut self, key: &str, default: bool) -> bool {
        self.choice(key, default, &[("on", true), ("off", false)])
    }

    pub(crate) fn path(&mut self, key: &str, default: impl AsRef<Path>) -> PathBuf {
        let show = |path: &PathBuf| path.display().to_string();
        self.read(key, default.as_ref().to_owned(), show, |given| match one(given)? {
            text if text.is_empty() || text.contains('\0') => Err("must be a path".to_owned()),
            text => Ok(PathBuf::from(text)),
        })
    }

    /// Text that `parse` understands, shown as it reads back.
    pub(crate) fn parsed<T: Display>(&mut self, key: &str, default: T, parse: impl Fn(&str) -> Result<T, String>) -> T {
        self.read(key, default, T::to_string, |given| parse(one(given)?))
    }

    /// Text that `parse` understands, where there is any.
    pub(crate) fn optional<T: Display>(
        &mut self,
        key: &str,
        parse: impl Fn(&str) -> Result<Option<T>, String>,
    ) -> Option<T> {
        let show = |value: &Option<T>| value.as_ref().map_or_else(|| "none".to_owned(), T::to_string);
        self.read(key, None, show, |given| parse(one(given)?))
    }

    /// Text, where there is any.
    pub(crate) fn text(&mut self, key: &str) -> Option<String> {
        let show = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        self.read(key, None, show, |given| match one(given)? {
            "" => Err("must not be empty".to_owned()),
            text => Ok(Some(text.to_owned())),
        })
    }

    /// Text that is never shown; every character must be accepted.
    pub(crate) fn secret(&mut self, key: &str, accept: impl Fn(char) -> bool, demand: &str) -> Option<Secret> {
        let show = |secret: &Option<Secret>| if secret.is_some() { MASK } else { "none" }.to_owned();
        self.read(key, None, show, |given| match one(given)? {
            text if !text.is_empty() && text.chars().all(&accept) => Ok(Some(Secret(text.to_owned()))),
            // The value is not part of the message, because problems are logged.
            _ => Err(demand.to_owned()),
        })
    }

    /// A list; outside the file its values are separated by commas.
    pub(crate) fn list(&mut self, key: &str, default: Vec<String>, accept: impl Fn(&str) -> bool) -> Vec<String> {
        let show = |values: &Vec<String>| values.join(",");
        self.read(key, default, show, |given| {
            let values: Vec<String> = match given {
                Given::List(values) => values.clone(),
                Given::Text(text) => {
                    text.split(',').map(|value| value.trim().to_owned()).filter(|value| !value.is_empty()).collect()
                }
            };
            match values.iter().find(|value| !accept(value)) {
                Some(value) => Err(format!("{value:?} cannot be one of its values")),
                None => Ok(values),
            }
        })
    }

    /// The listing, in the order of the keys.
    pub(crate) fn listing(&mut self) -> Vec<Described> {
        let order: Vec<String> = keys::all().into_iter().map(|key| key.name).collect();
        let mut described = std::mem::take(&mut self.described);
        described.sort_by_key(|found| order.iter().position(|name| *name == found.key));
        described
    }
}

fn one(given: &Given) -> Result<&str, String> {
    match given {
        Given::Text(text) => Ok(text.trim()),
        Given::List(_) => Err("must be one value, not a list".to_owned()),
    }
}

fn bytes_of(text: &str) -> Option<u64> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_pairs_and_anything_else_is_refused() {
        let pairs = |text: &str| {
            let pairs = Secret(text.to_owned()).pairs();
            pairs.map(|pairs| pairs.into_iter().map(|(name, Secret(value))| (name, value)).collect::<Vec<_>>())
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs("a=1, x-key = b%20c,"), Some(vec![pair("a", "1"), pair("x-key", "b c")]));
        assert_eq!(pairs("a=b=c"), Some(vec![pair("a", "b=c")]));
        for wrong in ["a", "=1", "a b=1", "a=%0a"] {
            assert_eq!(pairs(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn byte_counts_are_read_with_and_without_a_unit() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1048576", Some(1 << 20)),
            ("64 MiB", Some(64 << 20)),
            ("5MB", Some(5_000_000)),
            ("1gib", Some(1 << 30)),
            ("99999999999 GiB", None),
            ("-1", None),
            ("1.5 MiB", None),
            ("MiB", None),
            ("1 furlong", None),
            ("", None),
        ] {
            assert_eq!(bytes_of(text), expected, "{text}");
        }
    }
}
