//! Parsing of Redis replies, without unnecessary copies.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use redis::Value;
use tidemill_core::{Error, Token};

use crate::error::unexpected_reply;

/// A stream entry: its id and the bytes of its field `data`.
#[derive(Debug)]
pub(crate) struct StreamEntry {
    pub(crate) token: Token,
    pub(crate) data: Bytes,
}

pub(crate) fn bytes(value: Value) -> Option<Bytes> {
    match value {
        Value::BulkString(bytes) => Some(bytes.into()),
        Value::SimpleString(text) => Some(text.into()),
        Value::VerbatimString { text, .. } => Some(text.into()),
        _ => None,
    }
}

pub(crate) fn text(value: Value) -> Option<String> {
    bytes(value).and_then(|bytes| String::from_utf8(bytes.into()).ok())
}

pub(crate) fn array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        Value::Nil => Some(Vec::new()),
        _ => None,
    }
}

pub(crate) fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        Value::SimpleString(text) => text.parse().ok(),
        _ => None,
    }
}

/// A list of numbers, as scripts return it.
pub(crate) fn ints(value: Value, what: &str) -> Result<Vec<i64>, Error> {
    let items = array(value).ok_or_else(|| unexpected_reply(what))?;
    items.iter().map(|item| int(item).ok_or_else(|| unexpected_reply(what))).collect()
}

/// The reply of XREADGROUP on one stream.
pub(crate) fn read_group(value: Value) -> Result<Vec<StreamEntry>, Error> {
    let unexpected = || unexpected_reply("XREADGROUP");
    let Some(stream) = array(value).ok_or_else(unexpected)?.into_iter().next() else { return Ok(Vec::new()) };
    let parts = array(stream).ok_or_else(unexpected)?;
    entries(parts.into_iter().nth(1).ok_or_else(unexpected)?)
}

/// A list of entries. An entry with other fields counts, too: the worker that claims it buries it
/// with all of them. An entry that was deleted while pending has no fields and is skipped.
pub(crate) fn entries(value: Value) -> Result<Vec<StreamEntry>, Error> {
    let unexpected = || unexpected_reply("a stream");
    let items = array(value).ok_or_else(unexpected)?;
    let mut entries = Vec::with_capacity(items.len());
    for item in items {
        let mut parts = array(item).ok_or_else(unexpected)?.into_iter();
        let token = parts.next().and_then(|id| token(&id)).ok_or_else(unexpected)?;
        match parts.next() {
            Some(Value::Nil) | None => {}
            Some(fields) => entries.push(StreamEntry { token, data: data(fields).unwrap_or_default() }),
        }
    }
    Ok(entries)
}

/// The value of the field `data`; without one, all fields.
fn data(fields: Value) -> Option<Bytes> {
    let fields = array(fields)?;
    let named = fields
        .chunks_exact(2)
        .position(|pair| matches!(&pair[0], Value::BulkString(name) if name == b"data"));
    match named {
        Some(pair) => bytes(fields.into_iter().nth(pair * 2 + 1)?),
        None => Some(fields_as_json(fields)),
    }
}

/// Names and values of fields as a JSON array of pairs, which is never an envelope.
fn fields_as_json(fields: Vec<Value>) -> Bytes {
    let part = |value: &Value| {
        let bytes = bytes(value.clone()).unwrap_or_default();
        match std::str::from_utf8(&bytes) {
            Ok(text) => serde_json::json!(text),
            Err(_) => serde_json::json!({ "base64": STANDARD.encode(&bytes) }),
        }
    };
    let pairs: Vec<serde_json::Value> =
        fields.chunks(2).map(|pair| pair.iter().map(part).collect()).collect();
    serde_json::Value::from(pairs).to_string().into()
}

/// An entry id, `milliseconds-sequence`, as a token: it increases with every entry of a stream.
pub(crate) fn token(id: &Value) -> Option<Token> {
    let Value::BulkString(id) = id else { return None };
    parse_token(std::str::from_utf8(id).ok()?)
}

pub(crate) fn parse_token(id: &str) -> Option<Token> {
    let (ms, seq) = id.split_once('-')?;
    Some(Token(u128::from(ms.parse::<u64>().ok()?) << 64 | u128::from(seq.parse::<u64>().ok()?)))
}

/// Suffix of a worker's name as the holder of jobs that have not started.
pub(crate) const HELD_SUFFIX: &str = "+held";

/// A field of `running`: `token worker envelope`. The worker has the suffix `+held` before the
/// start.
#[derive(Debug)]
pub(crate) struct RunningEntry {
    pub(crate) token: Token,
    pub(crate) worker: String,
    pub(crate) started: bool,
    pub(crate) envelope: Bytes,
}

impl RunningEntry {
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = value.splitn(3, |&byte| byte == b' ');
        let token = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
        let holder = std::str::from_utf8(parts.next()?).ok()?;
        let (worker, started) =
            holder.strip_suffix(HELD_SUFFIX).map_or((holder, true), |worker| (worker, false));
        let envelope = Bytes::copy_from_slice(parts.next()?);
        Some(Self { token: Token(token), worker: worker.to_owned(), started, envelope })
    }
}

/// Set in the token of a job without an index entry. No clock reaches this bit.
pub(crate) const UNTRACKED_BIT: u128 = 1 << 127;

/// The entry id of a token.
pub(crate) fn entry_id(token: Token) -> String {
    let id = token.0 & !UNTRACKED_BIT;
    format!("{}-{}", id >> 64, id & u128::from(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_ids_read_back_and_grow() {
        let early = parse_token("1700000000000-7").unwrap();
        let late = parse_token("1700000000001-0").unwrap();
        assert!(early < late);
        assert_eq!(entry_id(early), "1700000000000-7");
        assert_eq!(entry_id(Token(early.0 | UNTRACKED_BIT)), "1700000000000-7");
        assert!(parse_token("17").is_none() && parse_token("-").is_none());
    }

    #[test]
    fn an_entry_without_data_is_all_its_fields() {
        let field = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
        let fields = [&b"job_id"[..], b"a", b"task_type", b"t\xff", b"unexpected"].map(field);
        let read = data(Value::Array(fields.to_vec())).unwrap();
        assert_eq!(&read[..], br#"[["job_id","a"],["task_type",{"base64":"dP8="}],["unexpected"]]"#);
        assert!(tidemill_core::Envelope::read(read).is_err());
    }
}
