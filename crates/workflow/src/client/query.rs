//! Queries to a run.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tidemill_core::client::WaitError;
use tidemill_core::workflow::Json;

use super::control::to_json;
use super::error::RunError;
use super::handle::RunHandle;
use crate::definition::Query;
use crate::error::QueryError;
use crate::replay::OpenWait;
use crate::task::{QUERY_KIND, QueryBody, QueryRequest};

/// How long to wait for an answer. It needs a worker that knows the run's code, and there may be
/// none.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

impl<O> RunHandle<O> {
    /// Queries the run, open or closed. A worker that knows its code answers.
    ///
    /// # Errors
    /// [`RunError::TimedOut`] if no worker answers within 30 seconds, [`RunError::Query`] if the code
    /// rejects the query, [`RunError::NotFound`]; otherwise the store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: a query changes nothing. A dropped call may leave its job until a worker answers it.
    pub async fn query<I: Serialize, A: DeserializeOwned>(
        &self,
        query: &Query<I, A>,
        input: &I,
    ) -> Result<A, RunError> {
        let input = to_json(&format!("the input of query `{}`", query.name()), input)?;
        let answer = self.query_untyped(query.name(), input).await?;
        answer.read().map_err(|error| RunError::Unreadable(self.run.clone(), error))
    }

    /// Sends a query whose name is known only at run time.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_untyped(&self, name: &str, input: Json) -> Result<Json, RunError> {
        self.check_payload_size(&input)?;
        self.send_query(QueryBody::Query { name: name.to_owned(), input }, ANSWER_TIMEOUT).await
    }

    /// What the run's code waits for, the oldest first, including cancel requests and spawned tasks,
    /// which are not in the journal. Needs a worker that knows its code, and waits at most `limit`
    /// for it; [`diagnose`](Self::diagnose) needs none.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn waits(&self, limit: Duration) -> Result<Vec<OpenWait>, RunError> {
        let answer = self.send_query(QueryBody::Waits, limit).await?;
        answer.read().map_err(|error| RunError::Unreadable(self.run.clone(), error))
    }

    async fn send_query(&self, question: QueryBody, limit: Duration) -> Result<Json, RunError> {
        let info = self.info().await?;
        let request = to_json("the question", &QueryRequest { run: self.run.clone(), question })?;
        let job = self.client.untyped(QUERY_KIND, Box::<RawValue>::from(request));
        let job = job.queue(info.queue.name.as_str()).keep_result(limit).enqueue().await?;
        let answer = match job.wait_for(limit).await {
            Ok(answer) => answer,
            Err(WaitError::TimedOut(id)) => {
                // The answer is no longer needed.
                self.store().cancel(&id).await?;
                return Err(RunError::TimedOut { run: self.run.clone(), what: "answer", waited: limit });
            }
            Err(WaitError::Store(error)) => return Err(error.into()),
            Err(WaitError::Output(_, error)) => return Err(RunError::Unreadable(self.run.clone(), error)),
            Err(lost) => {
                return Err(RunError::Unanswered { run: self.run.clone(), why: describe_lost(&lost) });
            }
        };
        let answer: Result<Result<Json, QueryError>, _> = serde_json::from_str(answer.get());
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(QueryError::NoRun(_))) => Err(RunError::NotFound(self.run.clone())),
            Ok(Err(error)) => Err(error.into()),
            Err(error) => Err(RunError::Unreadable(self.run.clone(), error)),
        }
    }
}

fn describe_lost(lost: &WaitError) -> String {
    match lost {
        WaitError::Gone(_) | WaitError::Cancelled(_) => {
            "its job was removed from the queue of the run's tasks".to_owned()
        }
        other => other.to_string(),
    }
}
