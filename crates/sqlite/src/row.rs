//! What a row says, in the words of the core. What cannot be understood is an error, never a panic.

use bytes::Bytes;
use rusqlite::Row;
use tidemill_core::name::{JobId, Queue, QueueName};
use tidemill_core::store::Claimed;
use tidemill_core::workflow::{CommitId, RunStatus};
use tidemill_core::{Error, Lease, Token};

use crate::error::Failure;

/// A job's number and the claim it was given out by, as the token of a lease. The claim comes first, so that
/// a later lease's token is greater whatever number the job has.
pub(crate) fn token(claim: i64, seq: i64) -> Token {
    Token(u128::from(claim.cast_unsigned()) << 64 | u128::from(seq.cast_unsigned()))
}

/// The claim and the number in a token.
pub(crate) fn parts(token: Token) -> (i64, i64) {
    let half = |bits: u128| (bits as u64).cast_signed();
    (half(token.0 >> 64), half(token.0))
}

/// A job's id. What is no id, because somebody else wrote it, gets a made-up one, so that one such row does
/// not hold up the rest.
pub(crate) fn job_id(row: &Row<'_>, column: usize, seq: i64) -> Result<JobId, Failure> {
    let written = row.get_ref(column)?.as_str().ok().and_then(|text| JobId::new(text).ok());
    written.map_or_else(|| Ok(JobId::new(&format!("invalid-{seq}"))?), Ok)
}

pub(crate) fn body(row: &Row<'_>, column: usize) -> Result<Bytes, Failure> {
    Ok(row.get::<_, Vec<u8>>(column)?.into())
}

/// A number that is never negative.
pub(crate) fn count(row: &Row<'_>, column: usize) -> Result<u64, Failure> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

/// The id of a commit, if there is one.
pub(crate) fn commit_id(row: &Row<'_>, column: usize) -> Result<Option<CommitId>, Failure> {
    Ok(row.get::<_, Option<i64>>(column)?.map(|id| CommitId::from_number(id.cast_unsigned())))
}

/// Where a run is.
pub(crate) fn status(row: &Row<'_>, column: usize) -> Result<RunStatus, Failure> {
    let status = row.get_ref(column)?.as_str()?.parse::<RunStatus>();
    Ok(status.map_err(|error| Error::Corrupt(error.to_string()))?)
}

/// A queue whose name and delivery are in two columns side by side.
pub(crate) fn queue(row: &Row<'_>, column: usize) -> Result<Queue, Failure> {
    let name = QueueName::new(row.get_ref(column)?.as_str()?)?;
    let delivery = row.get_ref(column + 1)?.as_str()?.parse()?;
    Ok(Queue { name, guarantee: delivery })
}

/// A leased job as it is in the database; reading its envelope is left to whoever asked for it.
#[derive(Debug)]
pub(crate) struct Leased {
    pub(crate) token: Token,
    pub(crate) id: JobId,
    pub(crate) body: Bytes,
    pub(crate) started: bool,
}

impl Leased {
    pub(crate) fn read(self, queue: &Queue) -> Claimed {
        let Self { token, id, body, started } = self;
        Claimed::read(body, started, |_| Lease { queue: queue.clone(), job: id, shard: 0, token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_holds_its_parts_and_grows_with_the_claim() {
        assert_eq!(parts(token(7, 5)), (7, 5));
        assert!(token(8, 1) > token(7, i64::MAX));
    }
}
