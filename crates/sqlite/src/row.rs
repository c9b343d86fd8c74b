//! Conversion of rows into core types. A value that cannot be parsed is an error, never a panic.

use bytes::Bytes;
use rusqlite::Row;
use tidemill_core::name::{JobId, Queue, QueueName};
use tidemill_core::store::Claimed;
use tidemill_core::workflow::{CommitId, RunStatus};
use tidemill_core::{Error, Lease, Token};

use crate::error::RequestError;

/// The token of a lease: the number of the claim and the number of the job. The claim comes first,
/// so that a later lease has a greater token whatever the job's number.
pub(crate) fn token(claim: i64, seq: i64) -> Token {
    Token(u128::from(claim.cast_unsigned()) << 64 | u128::from(seq.cast_unsigned()))
}

/// The claim and the job's number in a token.
pub(crate) fn claim_and_seq(token: Token) -> (i64, i64) {
    let half = |bits: u128| (bits as u64).cast_signed();
    (half(token.0 >> 64), half(token.0))
}

/// A job's id. An invalid id, written by another program, is replaced by a generated one, so that
/// such a row does not block the others.
pub(crate) fn job_id(row: &Row<'_>, column: usize, seq: i64) -> Result<JobId, RequestError> {
    let written = row.get_ref(column)?.as_str().ok().and_then(|text| JobId::new(text).ok());
    written.map_or_else(|| Ok(JobId::new(&format!("invalid-{seq}"))?), Ok)
}

pub(crate) fn body(row: &Row<'_>, column: usize) -> Result<Bytes, RequestError> {
    Ok(row.get::<_, Vec<u8>>(column)?.into())
}

/// A number that is never negative.
pub(crate) fn count(row: &Row<'_>, column: usize) -> Result<u64, RequestError> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

/// The id of a commit, if there is one.
pub(crate) fn commit_id(row: &Row<'_>, column: usize) -> Result<Option<CommitId>, RequestError> {
    Ok(row.get::<_, Option<i64>>(column)?.map(|id| CommitId::from_number(id.cast_unsigned())))
}

/// The status of a run.
pub(crate) fn status(row: &Row<'_>, column: usize) -> Result<RunStatus, RequestError> {
    let status = row.get_ref(column)?.as_str()?.parse::<RunStatus>();
    Ok(status.map_err(|error| Error::Corrupt(error.to_string()))?)
}

/// A queue whose name and guarantee are in two adjacent columns.
pub(crate) fn queue(row: &Row<'_>, column: usize) -> Result<Queue, RequestError> {
    let name = QueueName::new(row.get_ref(column)?.as_str()?)?;
    let guarantee = row.get_ref(column + 1)?.as_str()?.parse()?;
    Ok(Queue { name, guarantee })
}

/// A leased job as it is in the database. Its envelope is parsed on the caller's thread.
#[derive(Debug)]
pub(crate) struct LeasedRow {
    pub(crate) token: Token,
    pub(crate) id: JobId,
    pub(crate) body: Bytes,
    pub(crate) started: bool,
}

impl LeasedRow {
    pub(crate) fn into_claimed(self, queue: &Queue) -> Claimed {
        let Self { token, id, body, started } = self;
        Claimed::read(body, started, |_| Lease { queue: queue.clone(), job: id, shard: 0, token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_holds_its_parts_and_grows_with_the_claim() {
        assert_eq!(claim_and_seq(token(7, 5)), (7, 5));
        assert!(token(8, 1) > token(7, i64::MAX));
    }
}
