//! [`Params`]: the numbers that shape a contest.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Named numbers in the order in which they are told: `n` = 100,000. In JSON, an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Params(Vec<(Cow<'static, str>, u64)>);

impl Params {
    /// The number of that name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|&(known, _)| known == name).map(|(_, value)| value)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All but the one of that name.
    pub fn without(&self, name: &str) -> Self {
        Self(self.0.iter().filter(|(known, _)| known != name).cloned().collect())
    }
}

impl From<&[(&'static str, u64)]> for Params {
    fn from(params: &[(&'static str, u64)]) -> Self {
        Self(params.iter().map(|&(name, value)| (name.into(), value)).collect())
    }
}

impl<const N: usize> From<[(&'static str, u64); N]> for Params {
    fn from(params: [(&'static str, u64); N]) -> Self {
        (&params[..]).into()
    }
}

impl PartialEq<[(&'static str, u64)]> for Params {
    fn eq(&self, other: &[(&'static str, u64)]) -> bool {
        self.iter().eq(other.iter().copied())
    }
}

/// ` n=10 ready=1`: each with a space before it, so that it follows a workload's name.
impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

impl Serialize for Params {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Params {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Params;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params, A::Error> {
                let mut params = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, u64>()? {
                    params.push((name.into(), value));
                }
                Ok(Params(params))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_the_order() {
        let params = Params::from([("turns", 7), ("n", 100_000)]);
        let text = serde_json::to_string(&params).unwrap();
        assert_eq!(text, r#"{"turns":7,"n":100000}"#);
        assert_eq!(serde_json::from_str::<Params>(&text).unwrap(), params);
        assert_eq!(params.to_string(), " turns=7 n=100000");
    }

    #[test]
    fn one_is_found_or_left_out_by_its_name() {
        let params = Params::from([("n", 10), ("ready", 1)]);
        assert_eq!((params.get("ready"), params.get("x")), (Some(1), None));
        assert_eq!(params.without("ready"), Params::from([("n", 10)]));
        assert!(Params::default().is_empty());
    }
}
