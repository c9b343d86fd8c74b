//! Updates to a run.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::store::JobRecord;
use tidemill_core::wake::CompletionWatch;
use tidemill_core::workflow::{Json, RunEvent, Topic, UpdateResult};
use tidemill_core::{Error, JobId};

use super::control::to_json;
use super::error::RunError;
use super::handle::RunHandle;
use super::query::ANSWER_TIMEOUT;
use super::timeout::with_timeout;
use crate::definition::Update;

impl<O> RunHandle<O> {
    /// Sends an update and waits for its answer.
    ///
    /// # Errors
    /// [`RunError::Refused`] if the code rejects the update, [`RunError::TimedOut`] if it does not answer
    /// within 30 seconds, [`RunError::Closed`], [`RunError::NotFound`]; otherwise the store's error.
    ///
    /// # Cancel safety
    /// A dropped call may have sent the update; a second call sends a second update.
    pub async fn update<I: Serialize, A: DeserializeOwned>(
        &self,
        update: &Update<I, A>,
        input: &I,
    ) -> Result<A, RunError> {
        let input = to_json(&format!("the input of update `{}`", update.name()), input)?;
        let answer = self.update_untyped(update.name(), input).await?;
        answer.read().map_err(|error| RunError::Unreadable(self.run.clone(), error))
    }

    /// Sends an update whose name is known only at run time. Waits 30 seconds for the answer, which
    /// needs a worker that knows the run's code, and code that receives such updates.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    ///
    /// # Cancel safety
    /// As [`update`](Self::update).
    pub async fn update_untyped(&self, name: &str, payload: Json) -> Result<Json, RunError> {
        self.update_within(name, payload, ANSWER_TIMEOUT).await
    }

    /// Like `update_untyped`, with another limit. After a timeout the run may still execute the
    /// update.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    ///
    /// # Cancel safety
    /// As [`update`](Self::update).
    pub async fn update_within(&self, name: &str, payload: Json, limit: Duration) -> Result<Json, RunError> {
        self.check_payload_size(&payload)?;
        let name = Topic::new(name).map_err(Error::from)?;
        // Short, so that the id of the answer fits beside that of the run.
        let id = format!("{:016x}", fastrand::u64(..));
        let answer = self.run.part(format_args!("u{id}"));
        let watch = self.client.watch(&answer);
        self.send_event(RunEvent::Update { id: id.clone(), name, payload }, id).await?;
        match with_timeout(self.store(), limit, self.wait_answer(answer, watch)).await {
            Some(answer) => answer,
            None => Err(RunError::TimedOut { run: self.run.clone(), what: "answer", waited: limit }),
        }
    }

    async fn wait_answer(&self, answer: JobId, mut watch: CompletionWatch) -> Result<Json, RunError> {
        loop {
            // In this order: a run answers before it ends, or never.
            let closed = self.info().await?.status;
            if let Some(record) = self.store().get_job(&answer).await?.and_then(|info| info.record) {
                return self.read_answer(&record);
            }
            if closed.is_closed() {
                return Err(RunError::Closed { run: self.run.clone(), status: closed });
            }
            watch.next().await;
        }
    }

    fn read_answer(&self, record: &JobRecord) -> Result<Json, RunError> {
        let unreadable = |error| RunError::Unreadable(self.run.clone(), error);
        match serde_json::from_slice(&record.output).map_err(unreadable)? {
            UpdateResult::Ok(answer) => Ok(answer),
            UpdateResult::Failed { message } => Err(RunError::Refused { run: self.run.clone(), message }),
        }
    }
}
