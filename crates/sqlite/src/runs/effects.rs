//! What a task led to, beside its own entry.

use std::collections::BTreeMap;

use rusqlite::params;
use tidemill_core::name::Queue;
use tidemill_core::store::runs::Effect;
use tidemill_core::store::{EnqueueParams, JobRecord, NewJob};
use tidemill_core::wake::Wake;
use tidemill_core::workflow::{Json, Topic};

use super::alarms;
use crate::call::Tx;
use crate::error::Failure;
use crate::jobs::{add_all, cancel_silently, keep_record};

/// Does all that a task of the run with the number `run` led to, in order.
pub(super) fn apply(tx: &mut Tx<'_>, run: i64, effects: &[Effect]) -> Result<(), Failure> {
    let mut first_alarm = None;
    // Thousands of activities go to a queue together.
    for group in
        effects.chunk_by(|one, next| matches!((queue(one), queue(next)), (Some(a), Some(b)) if a == b))
    {
        if let Some(queue) = queue(&group[0]) {
            add(tx, queue, group)?;
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

/// Where a job goes.
fn queue(effect: &Effect) -> Option<&Queue> {
    match effect {
        Effect::Job { queue, .. } => Some(queue),
        _ => None,
    }
}

fn job(effect: &Effect) -> Option<NewJob> {
    match effect {
        // What is there already stays as it is, so it is looked for.
        Effect::Job { job, .. } => Some(NewJob { generated_id: false, ..job.clone() }),
        _ => None,
    }
}

fn add(tx: &mut Tx<'_>, queue: &Queue, effects: &[Effect]) -> Result<(), Failure> {
    let jobs: Vec<_> = effects.iter().filter_map(job).collect();
    add_all(tx, EnqueueParams { queue, jobs: &jobs })?;
    Ok(())
}

fn apply_one(tx: &mut Tx<'_>, run: i64, effect: &Effect) -> Result<(), Failure> {
    match effect {
        Effect::Job { queue, .. } => add(tx, queue, std::slice::from_ref(effect)),
        Effect::CancelJob(job) => cancel_silently(tx, job),
        Effect::SetTimer { seq, due, timer: alarm } => {
            alarms::set(tx, run, *seq, alarms::due_at(*due, tx.now), *alarm)
        }
        Effect::CancelTimer { seq } => alarms::drop_one(tx, run, *seq),
        Effect::Attributes(attributes) => describe(tx, run, attributes),
        Effect::Record(record) => keep(tx, record),
    }
}

/// Adds to what a run can be found by.
pub(super) fn describe(tx: &Tx<'_>, run: i64, attributes: &BTreeMap<Topic, Json>) -> Result<(), Failure> {
    let mut describe = tx.connection.prepare_cached(include_str!("../../sql/runs/describe.sql"))?;
    for (name, value) in attributes {
        describe.execute(params![run, name.as_str(), value.as_str()])?;
    }
    Ok(())
}

fn keep(tx: &mut Tx<'_>, record: &JobRecord) -> Result<(), Failure> {
    keep_record(tx, record, None)?;
    tx.announcements.add(Wake::Finished(record.job.clone()));
    Ok(())
}
