//! What tasks led to, turned on its side: a function takes one array per column. `functions/apply_effects.sql` says
//! what the columns mean for each kind.

use std::collections::BTreeMap;

use tidemill_core::store::runs::{Effect, RunTimer};
use tidemill_core::store::{Due, JobRecord, NewJob};
use tidemill_core::workflow::{Json, Topic};
use tidemill_core::{Error, Queue};
use tokio_postgres::types::ToSql;

use super::big;
use crate::Inner;
use crate::jobs::{delay, earliest, ms, state_code};

/// The effects of some commits.
#[derive(Default)]
pub(super) struct Effects<'a> {
    commits: Vec<i32>,
    kinds: Vec<i16>,
    names: Vec<&'a str>,
    seqs: Vec<i64>,
    ats: Vec<i64>,
    delays: Vec<i64>,
    data: Vec<&'a [u8]>,
    errors: Vec<Option<&'a [u8]>>,
}

#[derive(Default)]
struct Row<'a> {
    kind: i16,
    name: &'a str,
    seq: i64,
    at: i64,
    delay: i64,
    data: &'a [u8],
    error: Option<&'a [u8]>,
}

impl<'a> Effects<'a> {
    /// Adds the effects of the commit at this place. Queues that have no number yet are given one.
    pub(super) async fn add(
        &mut self,
        inner: &Inner,
        commit: i32,
        effects: &'a [Effect],
    ) -> Result<(), Error> {
        for effect in effects {
            match effect {
                Effect::Job { queue, job } => self.push(commit, made(inner, queue, job).await?),
                Effect::CancelJob(job) => {
                    // A run's jobs have no further steps, so the id is that of the row.
                    self.push(commit, Row { kind: 1, name: job.as_str(), ..Row::default() });
                }
                Effect::SetTimer { seq, due, timer: alarm } => self.push(commit, set(*seq, *due, *alarm)),
                Effect::CancelTimer { seq } => {
                    self.push(commit, Row { kind: 3, seq: big(*seq), ..Row::default() });
                }
                Effect::Attributes(attributes) => self.add_attributes(commit, attributes),
                Effect::Record(record) => self.push(commit, kept(record)),
            }
        }
        Ok(())
    }

    /// Adds what a run can be found by.
    pub(super) fn add_attributes(&mut self, commit: i32, attributes: &'a BTreeMap<Topic, Json>) {
        for (name, value) in attributes {
            let data = value.as_str().as_bytes();
            self.push(commit, Row { kind: 4, name: name.as_str(), data, ..Row::default() });
        }
    }

    fn push(&mut self, commit: i32, row: Row<'a>) {
        self.commits.push(commit);
        self.kinds.push(row.kind);
        self.names.push(row.name);
        self.seqs.push(row.seq);
        self.ats.push(row.at);
        self.delays.push(row.delay);
        self.data.push(row.data);
        self.errors.push(row.error);
    }

    /// The columns in their order.
    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 8] {
        [
            &self.commits,
            &self.kinds,
            &self.names,
            &self.seqs,
            &self.ats,
            &self.delays,
            &self.data,
            &self.errors,
        ]
    }
}

async fn made<'a>(inner: &Inner, queue: &Queue, job: &'a NewJob) -> Result<Row<'a>, Error> {
    let seq = i64::from(inner.number(queue).await?);
    let (at, delay) = (earliest(job.due), delay(job.due));
    Ok(Row { kind: 0, name: job.id.as_str(), seq, at, delay, data: &job.envelope, error: None })
}

fn set(seq: u64, due: Due, alarm: RunTimer) -> Row<'static> {
    let at = if let Due::At(time) = due { time.0.max(0) } else { -1 };
    let delay = delay(due);
    Row { kind: 2, name: alarm.code(), seq: big(seq), at, delay, ..Row::default() }
}

fn kept(record: &JobRecord) -> Row<'_> {
    Row {
        kind: 5,
        name: record.job.as_str(),
        seq: state_code(record.state).into(),
        at: record.finished_at.0,
        delay: ms(record.keep),
        data: &record.output,
        error: record.error.as_deref().map(str::as_bytes),
    }
}
