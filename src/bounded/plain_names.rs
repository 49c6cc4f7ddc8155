//! Whether a document of any format is without the names that JSON values take for something else.

use std::fmt;

use serde::de::{EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::json::is_reserved;

/// Any document without such names: to be read first, where JSON values are made of another format.
pub(crate) struct PlainNames;

impl<'de> Deserialize<'de> for PlainNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Walk)
    }
}

struct Walk;

impl<'de> Visitor<'de> for Walk {
    type Value = PlainNames;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<PlainNames, E> {
        if is_reserved(name) {
            Err(E::custom(format!("{name:?} is reserved: choose another name")))
        } else {
            Ok(PlainNames)
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<PlainNames, E> {
        Ok(PlainNames)
    }

    fn visit_i64<E>(self, _: i64) -> Result<PlainNames, E> {
        Ok(PlainNames)
    }

    fn visit_i128<E>(self, _: i128) -> Result<PlainNames, E> {
        Ok(PlainNames)
    }

    fn visit_u64<E>(self, _: u64) -> Result<PlainNames, E> {
        Ok(PlainNames)
    }

    fn visit_u128<E>(self, _: u128) -> Result<PlainNames, E> {
        Ok(PlainNames)
    }

    fn visit_f64<E>(self, _: f64) -> Result<PlainNames, E> {
        Ok(PlainNames)
    }

    fn visit_unit<E>(self) -> Result<PlainNames, E> {
        Ok(PlainNames)
    }

    fn visit_none<E>(self) -> Result<PlainNames, E> {
        Ok(PlainNames)
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<PlainNames, D::Error> {
        value.deserialize_any(Walk)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<PlainNames, A::Error> {
        while items.next_element::<PlainNames>()?.is_some() {}
        Ok(PlainNames)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<PlainNames, A::Error> {
        while entries.next_entry::<PlainNames, PlainNames>()?.is_some() {}
        Ok(PlainNames)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<PlainNames, A::Error> {
        let (PlainNames, content) = tagged.variant()?;
        content.newtype_variant()
    }
}
