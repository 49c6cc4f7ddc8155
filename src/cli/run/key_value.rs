//! A flag of the form KEY=VALUE.

use std::str::FromStr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyValue {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl FromStr for KeyValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("", _)) | None => Err(format!("{text:?} is not KEY=VALUE")),
            Some((key, value)) => Ok(Self { key: key.to_owned(), value: value.to_owned() }),
        }
    }
}
