//! The outcome of a simulation.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use tidemill_core::Timestamp;
use tidemill_core::workflow::{Journal, Json, RunEnd, RunId, Topic, UpdateResult};

use super::run::{RunClose, TestRun};
use super::simulation::Simulation;
use crate::error::QueryError;

/// The outcome of a simulation, after its last action.
pub struct TestOutcome<O> {
    close: Option<RunClose>,
    waits: Vec<String>,
    /// The journals of the tested run, oldest first if it has continued as new, followed by those
    /// of the runs it started.
    pub journals: Vec<Journal>,
    /// The search attributes of the runs.
    pub attributes: BTreeMap<Topic, Json>,
    /// The answers to updates, by the ids of the updates.
    pub updates: BTreeMap<String, UpdateResult>,
    /// The answers to queries.
    pub answers: Vec<Result<Json, QueryError>>,
    /// When the last action happened.
    pub at: Timestamp,
    output: PhantomData<fn() -> O>,
}

impl<O> fmt::Debug for TestOutcome<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestOutcome")
            .field("close", &self.close)
            .field("journals", &self.journals)
            .finish_non_exhaustive()
    }
}

/// Why a tested run has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoResult {
    /// It failed.
    #[error("the run failed: {0}")]
    Failed(String),
    /// It was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// It still waits.
    #[error("the run still waits for {}", .0.join(", "))]
    Waits(Vec<String>),
    /// Its result does not fit the type.
    #[error("the result does not fit: {0}")]
    Unreadable(String),
}

impl<O> TestOutcome<O> {
    pub(super) fn new(main: &RunId, mut simulation: Simulation) -> Self {
        let mut journals = Vec::new();
        let (mut close, mut waits) = (None, Vec::new());
        if let Some(mut run) = simulation.runs.remove(main) {
            close = run.end.clone();
            let replayer = run.replayer();
            waits = replayer
                .map(|replayer| replayer.waits().into_iter().map(|wait| wait.what).collect())
                .unwrap_or_default();
            collect_journals(&mut journals, run);
        }
        for run in simulation.runs.into_values() {
            collect_journals(&mut journals, run);
        }
        let Simulation { attributes, updates, answers, now, .. } = simulation;
        Self { close, waits, journals, attributes, updates, answers, at: Timestamp(now), output: PhantomData }
    }

    /// The journal of the tested run.
    pub fn journal(&self) -> Option<&Journal> {
        let main = &self.journals.first()?.run;
        self.journals.iter().take_while(|journal| journal.run == *main).last()
    }
}

fn collect_journals(journals: &mut Vec<Journal>, mut run: TestRun) {
    journals.append(&mut run.earlier);
    journals.push(run.journal());
}

impl<O: DeserializeOwned> TestOutcome<O> {
    /// The result of the tested run.
    pub fn result(&self) -> Result<O, NoResult> {
        match &self.close {
            Some(RunClose::By(RunEnd::Completed(output))) => {
                output.read().map_err(|error| NoResult::Unreadable(error.to_string()))
            }
            Some(RunClose::By(RunEnd::Failed { message })) => Err(NoResult::Failed(message.clone())),
            Some(RunClose::By(RunEnd::Cancelled)) => Err(NoResult::Cancelled),
            _ => Err(NoResult::Waits(self.waits.clone())),
        }
    }
}
