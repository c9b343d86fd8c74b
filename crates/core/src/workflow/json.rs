//! Values as raw JSON text.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// JSON text that is passed on unchanged. Numbers keep their precision and objects their order, and
/// a journal that is read and written again is identical.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Serialises a value.
    ///
    /// # Errors
    /// Fails if the value cannot be serialised.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// Wraps text that is JSON already.
    ///
    /// # Errors
    /// Fails if the text is not JSON.
    pub fn from_text(text: impl Into<String>) -> serde_json::Result<Self> {
        RawValue::from_string(text.into()).map(Self)
    }

    /// Deserialises the value as a `T`.
    ///
    /// # Errors
    /// Fails if the value does not match the type.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_str(self.0.get())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// `null`.
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        Self(raw)
    }
}

impl From<Json> for Box<RawValue> {
    fn from(json: Json) -> Self {
        json.0
    }
}

impl PartialEq for Json {
    /// Compares the text byte by byte.
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_letters() {
        let text = r#"{"b":1.10,"a":12345678901234567890123}"#;
        let json: Json = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), text);
        assert!(Json::from_text("{").is_err());
        assert_eq!(Json::null().read::<Option<u8>>().unwrap(), None);
    }
}
