//! Continuing: the next step takes the place of the one that has just ended.

use rusqlite::params;
use tidemill_core::settle::NextJob;

use super::blocks::Blocks;
use crate::call::Tx;
use crate::error::Failure;
use crate::jobs::{Line, arrive, due, find_or_add_queue};

/// Puts `step` in the place of the job with the number `seq`, which is in no place at the moment.
pub(crate) fn advance(tx: &mut Tx<'_>, seq: i64, step: &NextJob) -> Result<(), Failure> {
    let NextJob { queue, job } = step;
    let blocks = Blocks::look_up_for(tx, &job.links.after, &job.id)?;
    let line = Line { queue, number: find_or_add_queue(tx.connection, queue)?.number };
    let (due, envelope) = (due(job.due, tx.now), blocks.tell(&job.envelope));
    let mut next = tx.connection.prepare_cached(include_str!("../../sql/chains/continue.sql"))?;
    let row = params![seq, line.number, due.0, job.id.step(), &envelope[..]];
    if next.execute(row)? == 0 {
        // A lease without its job is a damaged file; ending it was all there is to do.
        return Ok(());
    }
    if blocks.are_open() { blocks.register(tx, seq, line.number) } else { arrive(tx, &line, due, seq) }
}
