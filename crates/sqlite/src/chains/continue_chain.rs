//! Continuing a chain: the next step replaces the one that has just ended.

use rusqlite::named_params;
use tidemill_core::settle::NextJob;

use super::blockers::ChainBlockers;
use crate::connection::Tx;
use crate::error::RequestError;
use crate::jobs::{due_time, insert_and_announce};
use crate::queues::{NumberedQueue, queue_row};

/// Replaces the job whose lease was just deleted by the next step of its chain.
const CONTINUE_CHAIN: &str =
    "UPDATE tidemill_jobs SET queue = :queue, due = :due, step = :step, body = :body WHERE seq = :seq";

/// Replaces the detached job with the number `seq` by its chain's next job.
pub(crate) fn continue_chain(tx: &mut Tx<'_>, seq: i64, step: &NextJob) -> Result<(), RequestError> {
    let NextJob { queue, job } = step;
    let blockers = ChainBlockers::find_for_step(tx, &job.links.after, &job.id)?;
    let target = NumberedQueue { queue, number: queue_row::find_or_insert(tx.connection, queue)?.number };
    let (due, envelope) = (due_time(job.due, tx.now), blockers.add_notices(&job.envelope));
    let mut next = tx.connection.prepare_cached(CONTINUE_CHAIN)?;
    let step = named_params! {
        ":seq": seq,
        ":queue": target.number,
        ":due": due.0,
        ":step": job.id.step(),
        ":body": &envelope[..],
    };
    if next.execute(step)? == 0 {
        // A lease without its job is a damaged file. Deleting the lease was all that could be done.
        return Ok(());
    }
    if blockers.any_open() {
        blockers.register(tx, seq, target.number)
    } else {
        insert_and_announce(tx, &target, due, seq)
    }
}
