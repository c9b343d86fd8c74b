//! Queries: jobs that read the state of a run's code.

use serde::{Deserialize, Serialize};
use tidemill_core::dead_letter::{DeathCause, DeathReason};
use tidemill_core::store::runs::{RunInfo, RunPosition};
use tidemill_core::workflow::{Json, RunId};
use tidemill_core::{Envelope, Outcome};
use tidemill_worker::JobContext;

use super::TaskHandler;
use super::postpone::PostponeReason;
use crate::error::QueryError;
use crate::replay::Replayer;

/// The kind of query jobs. They use the queue of the run's tasks.
pub(crate) const QUERY_KIND: &str = "tidemill/query";

/// A query to a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct QueryRequest {
    pub(crate) run: RunId,
    pub(crate) question: QueryBody,
}

/// What is queried.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QueryBody {
    /// A query that the workflow's code answers.
    Query { name: String, input: Json },
    /// What its code waits for.
    Waits,
}

impl TaskHandler {
    pub(super) async fn query(&self, envelope: &Envelope, cx: &JobContext) -> Outcome {
        let request: QueryRequest = match serde_json::from_slice(envelope.payload()) {
            Ok(request) => request,
            Err(error) => {
                let (reason, error) = (DeathReason::InvalidPayload, Some(error.to_string()));
                return Outcome::Dead(DeathCause { reason, error });
            }
        };
        match self.answer(&request, cx).await {
            Ok(answer) => Outcome::Done(serde_json::to_vec(&answer).unwrap_or_default().into()),
            Err(reason) => reason.postpone(envelope),
        }
    }

    async fn answer(
        &self,
        request: &QueryRequest,
        cx: &JobContext,
    ) -> Result<Result<Json, QueryError>, PostponeReason> {
        let Some(info) = cx.client().store().get_run(&request.run).await? else {
            return Ok(Err(QueryError::NoRun(request.run.to_string())));
        };
        let mut replayer = match self.load(&info, cx).await {
            Ok(Some(replayer)) => replayer,
            Ok(None) => return Ok(Err(QueryError::NoRun(request.run.to_string()))),
            Err(PostponeReason::Blocked(blocked)) => {
                return Ok(Err(QueryError::Blocked(blocked.to_string())));
            }
            Err(reason) => return Err(reason),
        };
        let answer = match &request.question {
            QueryBody::Query { name, input } => replayer.query(name, input),
            QueryBody::Waits => waits(&replayer),
        };
        if let Some(commit) = info.last_commit.filter(|_| !info.status.is_closed()) {
            self.cache.put(&request.run, replayer, commit);
        }
        Ok(answer)
    }

    /// The run's replayer: the cached one if it is at the last commit, else a new one.
    async fn load(&self, info: &RunInfo, cx: &JobContext) -> Result<Option<Box<Replayer>>, PostponeReason> {
        let at = RunPosition { cursor: info.cursor, last_commit: info.last_commit };
        if let Some(replayer) = self.cache.take_now(&info.run, at) {
            return Ok(Some(replayer));
        }
        let Some(program) = self.programs.find(&info.workflow, &info.version) else {
            let (workflow, version) = (info.workflow.clone(), info.version.clone());
            return Err(PostponeReason::NoProgram { workflow, version });
        };
        // Without the new events: they belong to the next task.
        self.rebuild(program, &info.run, info.cursor, &**cx.client().store()).await
    }
}

fn waits(replayer: &Replayer) -> Result<Json, QueryError> {
    let unreadable = |error: serde_json::Error| QueryError::Unreadable {
        query: "what it waits for".into(),
        message: error.to_string(),
    };
    Json::from_value(&replayer.waits()).map_err(unreadable)
}
