//! The rows of effects. `functions/apply_effects.sql` documents the columns of each kind.

use std::collections::BTreeMap;

use postgres_types::ToSql;
use tidemill_core::store::runs::{Effect, RunTimer};
use tidemill_core::store::{Due, JobRecord, NewJob};
use tidemill_core::workflow::{Json, Topic};
use tidemill_core::{Error, Queue};

use super::to_i64;
use crate::Inner;
use crate::jobs::{delay_ms, earliest, ms, state_code};

/// The effects of some commits.
#[derive(Default)]
pub(super) struct EffectRows<'a>(Vec<EffectRow<'a>>);

/// An effect of a commit, as functions take it.
#[derive(Debug, Default, ToSql)]
#[postgres(name = "effect_row")]
pub(super) struct EffectRow<'a> {
    /// The number of its commit.
    commit: i32,
    kind: i16,
    name: &'a str,
    seq: i64,
    at: i64,
    delay: i64,
    data: &'a [u8],
    error: Option<&'a [u8]>,
}

impl<'a> EffectRows<'a> {
    /// Adds the effects of the commit with this index. Queues that do not exist are created.
    pub(super) async fn add(
        &mut self,
        inner: &Inner,
        commit: i32,
        effects: &'a [Effect],
    ) -> Result<(), Error> {
        for effect in effects {
            match effect {
                Effect::Job { queue, job } => self.push(commit, job_row(inner, queue, job).await?),
                Effect::CancelJob(job) => {
                    // A run's jobs have no further steps, so the id is that of the row.
                    self.push(commit, EffectRow { kind: 1, name: job.as_str(), ..EffectRow::default() });
                }
                Effect::SetTimer { seq, due, timer: alarm } => {
                    self.push(commit, alarm_row(*seq, *due, *alarm))
                }
                Effect::CancelTimer { seq } => {
                    self.push(commit, EffectRow { kind: 3, seq: to_i64(*seq), ..EffectRow::default() });
                }
                Effect::Attributes(attributes) => self.add_attributes(commit, attributes),
                Effect::Record(record) => self.push(commit, record_row(record)),
            }
        }
        Ok(())
    }

    /// Adds search attributes of a run.
    pub(super) fn add_attributes(&mut self, commit: i32, attributes: &'a BTreeMap<Topic, Json>) {
        for (name, value) in attributes {
            let data = value.as_str().as_bytes();
            self.push(commit, EffectRow { kind: 4, name: name.as_str(), data, ..EffectRow::default() });
        }
    }

    fn push(&mut self, commit: i32, row: EffectRow<'a>) {
        self.0.push(EffectRow { commit, ..row });
    }

    /// The rows, as a parameter.
    pub(super) fn rows(&self) -> &[EffectRow<'a>] {
        &self.0
    }
}

async fn job_row<'a>(inner: &Inner, queue: &Queue, job: &'a NewJob) -> Result<EffectRow<'a>, Error> {
    let seq = i64::from(inner.queue_id(queue).await?);
    let (at, delay) = (earliest(job.due), delay_ms(job.due));
    let (name, data) = (job.id.as_str(), &*job.envelope);
    Ok(EffectRow { kind: 0, name, seq, at, delay, data, ..EffectRow::default() })
}

fn alarm_row(seq: u64, due: Due, alarm: RunTimer) -> EffectRow<'static> {
    let at = if let Due::At(time) = due { time.0.max(0) } else { -1 };
    let delay = delay_ms(due);
    EffectRow { kind: 2, name: alarm.code(), seq: to_i64(seq), at, delay, ..EffectRow::default() }
}

fn record_row(record: &JobRecord) -> EffectRow<'_> {
    EffectRow {
        kind: 5,
        name: record.job.as_str(),
        seq: state_code(record.state).into(),
        at: record.finished_at.0,
        delay: ms(record.keep),
        data: &record.output,
        error: record.error.as_deref().map(str::as_bytes),
        ..EffectRow::default()
    }
}
