//! The effects of a task's commit.

use std::collections::BTreeMap;

use rusqlite::params;
use tidemill_core::name::Queue;
use tidemill_core::store::runs::Effect;
use tidemill_core::store::{EnqueueParams, JobRecord, NewJob};
use tidemill_core::wake::Wake;
use tidemill_core::workflow::{Json, Topic};

use super::alarms;
use crate::connection::Tx;
use crate::error::RequestError;
use crate::jobs::{cancel_for_run, insert_all, insert_record};

/// Sets a search attribute of a run.
const SET_ATTRIBUTE: &str = "
    INSERT OR REPLACE INTO tidemill_run_attributes (run, name, value, started)
    SELECT number, ?2, ?3, started FROM tidemill_runs WHERE number = ?1";

/// Applies the effects of a commit of the run with the number `run`, in order.
pub(super) fn apply(tx: &mut Tx<'_>, run: i64, effects: &[Effect]) -> Result<(), RequestError> {
    let mut first_alarm = None;
    // Consecutive jobs for one queue are inserted together: there may be thousands of activities.
    for group in
        effects.chunk_by(|one, next| matches!((queue(one), queue(next)), (Some(a), Some(b)) if a == b))
    {
        if let Some(queue) = queue(&group[0]) {
            insert_jobs(tx, queue, group)?;
            continue;
        }
        for effect in group {
            apply_one(tx, run, effect)?;
            if let Effect::SetTimer { due, .. } = effect {
                let due = alarms::due_at(*due, tx.now);
                first_alarm = Some(first_alarm.map_or(due, |first| due.min(first)));
            }
        }
    }
    alarms::announce_if_sooner(tx, run, first_alarm)
}

/// The queue of a job effect.
fn queue(effect: &Effect) -> Option<&Queue> {
    match effect {
        Effect::Job { queue, .. } => Some(queue),
        _ => None,
    }
}

fn job(effect: &Effect) -> Option<NewJob> {
    match effect {
        // A job with this id may exist. It stays as it is, so the insert must check.
        Effect::Job { job, .. } => Some(NewJob { generated_id: false, ..job.clone() }),
        _ => None,
    }
}

fn insert_jobs(tx: &mut Tx<'_>, queue: &Queue, effects: &[Effect]) -> Result<(), RequestError> {
    let jobs: Vec<_> = effects.iter().filter_map(job).collect();
    insert_all(tx, EnqueueParams { queue, jobs: &jobs })?;
    Ok(())
}

fn apply_one(tx: &mut Tx<'_>, run: i64, effect: &Effect) -> Result<(), RequestError> {
    match effect {
        Effect::Job { queue, .. } => insert_jobs(tx, queue, std::slice::from_ref(effect)),
        Effect::CancelJob(job) => cancel_for_run(tx, job),
        Effect::SetTimer { seq, due, timer: alarm } => {
            alarms::set(tx, run, *seq, alarms::due_at(*due, tx.now), *alarm)
        }
        Effect::CancelTimer { seq } => alarms::drop_one(tx, run, *seq),
        Effect::Attributes(attributes) => set_attributes(tx, run, attributes),
        Effect::Record(record) => record_job(tx, record),
    }
}

/// Sets search attributes of a run.
pub(super) fn set_attributes(
    tx: &Tx<'_>,
    run: i64,
    attributes: &BTreeMap<Topic, Json>,
) -> Result<(), RequestError> {
    let mut set = tx.connection.prepare_cached(SET_ATTRIBUTE)?;
    for (name, value) in attributes {
        set.execute(params![run, name.as_str(), value.as_str()])?;
    }
    Ok(())
}

fn record_job(tx: &mut Tx<'_>, record: &JobRecord) -> Result<(), RequestError> {
    insert_record(tx, record, None)?;
    tx.wakes.add(Wake::Finished(record.job.clone()));
    Ok(())
}
