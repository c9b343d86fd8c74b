//! Edits of single envelope fields; all other bytes are preserved.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

/// One change to a top-level field.
#[derive(Debug, Clone, Copy)]
pub enum Edit<'a> {
    /// Sets the field to a number.
    Number(&'a str, u64),
    /// Sets the field to a string.
    Text(&'a str, &'a str),
    /// Removes the field.
    Remove(&'a str),
}

impl Edit<'_> {
    fn field(&self) -> &str {
        match self {
            Self::Number(field, _) | Self::Text(field, _) | Self::Remove(field) => field,
        }
    }
}

/// Applies `edits` to a JSON object.
///
/// # Errors
/// Fails if `object` is not a JSON object: an edit must not be skipped silently.
pub(super) fn edit(object: &str, edits: &[Edit<'_>]) -> serde_json::Result<Bytes> {
    let fields: Fields<'_> = serde_json::from_str(object)?;
    let mut out = Vec::with_capacity(object.len() + 64);
    write_fields(&mut serde_json::Serializer::new(&mut out), &fields, edits)?;
    Ok(out.into())
}

fn write_fields<S: Serializer>(to: S, fields: &Fields<'_>, edits: &[Edit<'_>]) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    for (name, value) in &fields.0 {
        match edits.iter().find(|edit| edit.field() == name) {
            None => map.serialize_entry(name, value)?,
            Some(edit) => write_edit(&mut map, edit)?,
        }
    }
    for edit in edits.iter().filter(|edit| !fields.0.iter().any(|(name, _)| edit.field() == name)) {
        write_edit(&mut map, edit)?;
    }
    map.end()
}

fn write_edit<M: SerializeMap>(map: &mut M, edit: &Edit<'_>) -> Result<(), M::Error> {
    match edit {
        Edit::Number(field, value) => map.serialize_entry(field, value),
        Edit::Text(field, value) => map.serialize_entry(field, value),
        Edit::Remove(_) => Ok(()),
    }
}

/// The fields of an object in order, with raw values.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
                let mut fields = Vec::new();
                while let Some((FieldName(name), value)) = map.next_entry()? {
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(FieldsVisitor)
    }
}

/// A string, borrowed if it has no escapes.
#[derive(Deserialize)]
pub(super) struct FieldName<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);
