//! Answering questions about a run, by its code.

use serde::{Deserialize, Serialize};
use tidemill_core::dead_letter::{DeathCause, DeathReason};
use tidemill_core::store::runs::{RunInfo, RunPosition};
use tidemill_core::workflow::{Json, RunId};
use tidemill_core::{Envelope, Outcome};
use tidemill_worker::JobContext;

use super::Host;
use super::setback::Setback;
use crate::error::QueryError;
use crate::machine::Machine;

/// The kind of questions: jobs on the queue of the run's tasks.
pub(crate) const QUERY: &str = "tidemill/query";

/// A question about a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) run: RunId,
    pub(crate) question: Question,
}

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// What the workflow answers itself.
    Query { name: String, input: Json },
    /// What its code waits for.
    Waits,
}

impl Host {
    pub(super) async fn query(&self, envelope: &Envelope, cx: &JobContext) -> Outcome {
        let ask: Ask = match serde_json::from_slice(envelope.payload()) {
            Ok(ask) => ask,
            Err(error) => {
                let (reason, error) = (DeathReason::InvalidPayload, Some(error.to_string()));
                return Outcome::Dead(DeathCause { reason, error });
            }
        };
        match self.answer(&ask, cx).await {
            Ok(answer) => Outcome::Done(serde_json::to_vec(&answer).unwrap_or_default().into()),
            Err(setback) => setback.postpone(envelope),
        }
    }

    async fn answer(&self, ask: &Ask, cx: &JobContext) -> Result<Result<Json, QueryError>, Setback> {
        let Some(info) = cx.client().store().get_run(&ask.run).await? else {
            return Ok(Err(QueryError::NoRun(ask.run.to_string())));
        };
        let mut machine = match self.bring(&info, cx).await {
            Ok(Some(machine)) => machine,
            Ok(None) => return Ok(Err(QueryError::NoRun(ask.run.to_string()))),
            Err(Setback::Halted(halt)) => return Ok(Err(QueryError::Blocked(halt.to_string()))),
            Err(setback) => return Err(setback),
        };
        let answer = match &ask.question {
            Question::Query { name, input } => machine.query(name, input),
            Question::Waits => waits(&machine),
        };
        if let Some(commit) = info.last_commit.filter(|_| !info.status.is_closed()) {
            self.cache.put(&ask.run, machine, commit);
        }
        Ok(answer)
    }

    /// The run's machine: the one in memory if nobody else has carried the run further, a new one if not.
    async fn bring(&self, info: &RunInfo, cx: &JobContext) -> Result<Option<Box<Machine>>, Setback> {
        let at = RunPosition { cursor: info.cursor, last_commit: info.last_commit };
        if let Some(machine) = self.cache.take_now(&info.run, at) {
            return Ok(Some(machine));
        }
        let Some(program) = self.programs.find(&info.workflow, &info.version) else {
            let (workflow, version) = (info.workflow.clone(), info.version.clone());
            return Err(Setback::NoProgram { workflow, version });
        };
        // What is new is its next task's.
        self.rebuild(program, &info.run, info.cursor, &**cx.client().store()).await
    }
}

fn waits(machine: &Machine) -> Result<Json, QueryError> {
    let unreadable = |error: serde_json::Error| QueryError::Unreadable {
        query: "what it waits for".into(),
        message: error.to_string(),
    };
    Json::from_value(&machine.waits()).map_err(unreadable)
}
