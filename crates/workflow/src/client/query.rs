//! Asking a run something that does not change it.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tidemill_core::client::WaitError;
use tidemill_core::workflow::Json;

use super::control::written;
use super::error::RunError;
use super::handle::RunHandle;
use crate::definition::Query;
use crate::error::QueryError;
use crate::host::{Ask, QUERY, Question};
use crate::machine::Waiting;

/// How long an answer may take. It needs a worker that knows the run's code, and there may be none.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

impl<O> RunHandle<O> {
    /// Asks the run, open or closed. A worker that knows its code answers.
    pub async fn query<I: Serialize, A: DeserializeOwned>(
        &self,
        query: &Query<I, A>,
        input: &I,
    ) -> Result<A, RunError> {
        let input = written(&format!("the input of query `{}`", query.name()), input)?;
        let answer = self.query_untyped(query.name(), input).await?;
        answer.read().map_err(|error| RunError::Unfit(self.run.clone(), error))
    }

    /// Asks the run something whose name is known only at run time.
    pub async fn query_untyped(&self, name: &str, input: Json) -> Result<Json, RunError> {
        self.check(&input)?;
        self.ask(Question::Query { name: name.to_owned(), input }, ANSWER).await
    }

    /// What the run's code waits for, the oldest first: signals and updates too, which no journal tells. A worker that
    /// knows its code answers, or nobody within `limit`.
    pub async fn waits(&self, limit: Duration) -> Result<Vec<Waiting>, RunError> {
        let answer = self.ask(Question::Waits, limit).await?;
        answer.read().map_err(|error| RunError::Unfit(self.run.clone(), error))
    }

    async fn ask(&self, question: Question, limit: Duration) -> Result<Json, RunError> {
        let info = self.info().await?;
        let ask = written("the question", &Ask { run: self.run.clone(), question })?;
        let asked = self.client.untyped(QUERY, Box::<RawValue>::from(ask));
        let asked = asked.queue(info.queue.name.as_str()).keep_result(limit).enqueue().await?;
        let answer = match asked.wait_for(limit).await {
            Ok(answer) => answer,
            Err(WaitError::TimedOut(job)) => {
                // Nobody is interested in the answer any more.
                self.store().cancel(&job).await?;
                return Err(RunError::TimedOut { run: self.run.clone(), what: "answer", waited: limit });
            }
            Err(WaitError::Store(error)) => return Err(error.into()),
            Err(WaitError::Output(_, error)) => return Err(RunError::Unfit(self.run.clone(), error)),
            Err(lost) => {
                return Err(RunError::Unanswered { run: self.run.clone(), why: lost_because(&lost) });
            }
        };
        let answer: Result<Result<Json, QueryError>, _> = serde_json::from_str(answer.get());
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(QueryError::NoRun(_))) => Err(RunError::NotFound(self.run.clone())),
            Ok(Err(error)) => Err(error.into()),
            Err(error) => Err(RunError::Unfit(self.run.clone(), error)),
        }
    }
}

fn lost_because(lost: &WaitError) -> String {
    match lost {
        WaitError::Gone(_) | WaitError::Cancelled(_) => {
            "its job was removed from the queue of the run's tasks".to_owned()
        }
        other => other.to_string(),
    }
}
