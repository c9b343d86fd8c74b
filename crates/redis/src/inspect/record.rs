//! A finished job's record, as JSON in a key that expires.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidemill_core::clock::millis;
use tidemill_core::store::JobRecord;
use tidemill_core::{Error, JobId, Timestamp};

#[derive(Serialize, Deserialize)]
struct RecordJson<'a> {
    state: &'a str,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    error: Option<String>,
    finished_ms: i64,
    keep_ms: u64,
}

pub(crate) fn write(record: &JobRecord) -> Bytes {
    let state = record.state.to_string();
    let output = serde_json::from_slice::<&RawValue>(&record.output).ok();
    let wire = RecordJson {
        state: &state,
        output,
        error: record.error.clone(),
        finished_ms: record.finished_at.0,
        keep_ms: millis(record.keep).unsigned_abs(),
    };
    serde_json::to_vec(&wire).unwrap_or_default().into()
}

pub(crate) fn read(job: &JobId, value: &[u8]) -> Result<JobRecord, Error> {
    let damaged = || Error::Corrupt(format!("the record of job {job}"));
    let wire: RecordJson<'_> = serde_json::from_slice(value).map_err(|_| damaged())?;
    Ok(JobRecord {
        job: job.clone(),
        state: wire.state.parse().map_err(|_| damaged())?,
        output: wire.output.map(|raw| Bytes::copy_from_slice(raw.get().as_bytes())).unwrap_or_default(),
        error: wire.error,
        finished_at: Timestamp(wire.finished_ms),
        keep: Duration::from_millis(wire.keep_ms),
    })
}
