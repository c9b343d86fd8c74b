//! Blockers: the ends of the chains that a job waited for.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::job::JobState;
use crate::limits::MAX_BLOCKERS;
use crate::name::JobId;
use crate::store::{Error, JobRecord};

/// The end of a chain, as seen by a job that waited for it.
#[derive(Debug, Clone, Deserialize)]
pub struct Blocker {
    /// The chain.
    #[serde(deserialize_with = "job_id")]
    pub chain: JobId,
    /// `Done` or `Cancelled`; a cancelled chain has no output.
    pub state: JobState,
    /// The output; `null` if there is none.
    pub output: Box<RawValue>,
}

impl Blocker {
    /// The JSON object for the envelope of a job that waited for this chain.
    pub fn notice(record: &JobRecord) -> Bytes {
        let output: &[u8] = if record.output.is_empty() { b"null" } else { &record.output };
        blocker_json(&record.job, record.state, output)
    }

    /// The JSON object for the envelope of a job whose blocking chain was removed.
    pub fn removed_notice(chain: &JobId) -> Bytes {
        blocker_json(chain, JobState::Cancelled, b"null")
    }
}

fn blocker_json(chain: &JobId, state: JobState, output: &[u8]) -> Bytes {
    let chain = serde_json::to_string(chain).unwrap_or_default();
    let mut out = format!(r#"{{"chain":{chain},"state":"{state}","output":"#).into_bytes();
    out.extend_from_slice(output);
    out.push(b'}');
    out.into()
}

/// Adds the ends of the chains to the envelope of a job that waited for them, before the last
/// brace, as `"blockers":[…]`. Stores do the same in SQL and Lua.
pub fn with_blockers<'a>(envelope: &[u8], blockers: impl IntoIterator<Item = &'a [u8]>) -> Bytes {
    let mut out = envelope.trim_ascii_end().to_vec();
    out.pop();
    out.extend_from_slice(br#","blockers":["#);
    for (index, blocker) in blockers.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(blocker);
    }
    out.extend_from_slice(b"]}");
    out.into()
}

/// Checks that a job does not wait for too many chains.
pub(crate) fn check_blockers(after: &[JobId]) -> Result<(), Error> {
    if after.len() <= MAX_BLOCKERS {
        return Ok(());
    }
    Err(Error::Invalid(format!("a job can wait for at most {MAX_BLOCKERS} chains")))
}

fn job_id<'de, D: serde::Deserializer<'de>>(from: D) -> Result<JobId, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
    JobId::new(&text).map_err(serde::de::Error::custom)
}
