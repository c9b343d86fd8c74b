//! What is left of a test world.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use tidemill_core::Timestamp;
use tidemill_core::workflow::{Journal, Json, RunEnd, RunId, Topic, UpdateResult};

use super::play::Play;
use super::run::{Close, Run};
use crate::error::QueryError;

/// A test world after the last thing has happened.
pub struct Ended<O> {
    close: Option<Close>,
    waits: Vec<String>,
    /// The journals of the run that was tested, and of those before it continued as new, oldest first; then those
    /// of the runs it started.
    pub journals: Vec<Journal>,
    /// What the runs can be found by.
    pub attributes: BTreeMap<Topic, Json>,
    /// The answers to updates, by the updates' ids.
    pub updates: BTreeMap<String, UpdateResult>,
    /// The answers to queries.
    pub answers: Vec<Result<Json, QueryError>>,
    /// When the last thing happened.
    pub at: Timestamp,
    output: PhantomData<fn() -> O>,
}

impl<O> fmt::Debug for Ended<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended")
            .field("close", &self.close)
            .field("journals", &self.journals)
            .finish_non_exhaustive()
    }
}

/// A run that was tested has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoResult {
    /// It failed.
    #[error("the run failed: {0}")]
    Failed(String),
    /// It was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// It waits for what never comes.
    #[error("the run still waits for {}", .0.join(", "))]
    Waits(Vec<String>),
    /// Its result does not fit the type.
    #[error("the result does not fit: {0}")]
    Unreadable(String),
}

impl<O> Ended<O> {
    pub(super) fn new(main: &RunId, mut play: Play) -> Self {
        let mut journals = Vec::new();
        let (mut close, mut waits) = (None, Vec::new());
        if let Some(mut run) = play.runs.remove(main) {
            close = run.end.clone();
            let machine = run.machine();
            waits = machine
                .map(|machine| machine.waits().into_iter().map(|wait| wait.what).collect())
                .unwrap_or_default();
            collect(&mut journals, run);
        }
        for run in play.runs.into_values() {
            collect(&mut journals, run);
        }
        let Play { attributes, updates, answers, now, .. } = play;
        Self { close, waits, journals, attributes, updates, answers, at: Timestamp(now), output: PhantomData }
    }

    /// The journal of the run that was tested.
    pub fn journal(&self) -> Option<&Journal> {
        let main = &self.journals.first()?.run;
        self.journals.iter().take_while(|journal| journal.run == *main).last()
    }
}

fn collect(journals: &mut Vec<Journal>, mut run: Run) {
    journals.append(&mut run.earlier);
    journals.push(run.journal());
}

impl<O: DeserializeOwned> Ended<O> {
    /// The result of the run that was tested.
    pub fn result(&self) -> Result<O, NoResult> {
        match &self.close {
            Some(Close::By(RunEnd::Completed(output))) => {
                output.read().map_err(|error| NoResult::Unreadable(error.to_string()))
            }
            Some(Close::By(RunEnd::Failed { message })) => Err(NoResult::Failed(message.clone())),
            Some(Close::By(RunEnd::Cancelled)) => Err(NoResult::Cancelled),
            _ => Err(NoResult::Waits(self.waits.clone())),
        }
    }
}
