//! A value of JSON that must be an object: serde would also take an array, as the members in their order.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

#[derive(Debug)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Pair {
        a: u8,
        b: u8,
    }

    #[test]
    fn an_array_is_not_taken_for_an_object() {
        assert_eq!(serde_json::from_str::<Pair>("[1,2]").map(|Pair { a, b }| (a, b)).unwrap(), (1, 2), "serde does");
        assert_eq!(serde_json::from_str(r#"{"a":1,"b":2}"#).map(|Object(Pair { a, b })| (a, b)).unwrap(), (1, 2));
        let refused = serde_json::from_str::<Object<Pair>>("[1,2]").unwrap_err().to_string();
        assert!(refused.starts_with("invalid type: sequence, expected an object"), "{refused}");
    }
}
