//! A run's state as JSON. Scripts rewrite it with numbers of 14 digits, which is enough for times
//! and positions. Embedded JSON, such as an output, is stored as text, because scripts would not
//! preserve it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidemill_core::clock::millis;
use tidemill_core::store::runs::{ParentRef, RunInfo, StartRunParams};
use tidemill_core::workflow::{CommitId, Json, RunId, RunStatus, Topic, Version, WorkflowName};
use tidemill_core::{Error, Queue, QueueName, Timestamp};

#[derive(Serialize, Deserialize)]
pub(super) struct Instance {
    run: RunId,
    workflow: WorkflowName,
    version: Version,
    queue: QueueName,
    status: RunStatus,
    #[serde(default)]
    started_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed_at: Option<i64>,
    cursor: u64,
    length: u64,
    /// The id of the last commit as text: it has more digits than numbers keep in scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_commit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<ParentJson>,
    keep_ms: i64,
    head: String,
    attributes: BTreeMap<Topic, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ParentJson {
    run: RunId,
    seq: u64,
}

impl Instance {
    /// The state of a run that is about to be started. The script adds the time.
    pub(super) fn new(run: &StartRunParams) -> Self {
        let parent =
            run.parent.as_ref().map(|parent| ParentJson { run: parent.run.clone(), seq: parent.seq });
        let text = |(name, value): (&Topic, &Json)| (name.clone(), value.as_str().to_owned());
        Self {
            run: run.run.clone(),
            workflow: run.workflow.clone(),
            version: run.version.clone(),
            queue: run.queue.name.clone(),
            status: RunStatus::Running,
            started_at: 0,
            closed_at: None,
            cursor: run.cursor,
            length: 0,
            last_commit: None,
            key: run.key.as_ref().map(|key| key.key.clone()),
            parent,
            keep_ms: millis(run.keep),
            head: String::from_utf8_lossy(&run.task_head).into_owned(),
            attributes: run.attributes.iter().map(text).collect(),
            output: None,
            error: None,
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn parse(run: &RunId, text: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(text)
            .map_err(|error| Error::Corrupt(format!("the state of run {run}: {error}")))
    }

    /// Whether the run has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.status.is_closed()
    }

    /// The public description of the run.
    pub(super) fn into_info(self, next_timer: Option<Timestamp>) -> Result<RunInfo, Error> {
        let damaged = |error| Error::Corrupt(format!("an attribute of run {}: {error}", self.run));
        let json = |(name, text): (Topic, String)| Ok((name, Json::from_text(text).map_err(damaged)?));
        Ok(RunInfo {
            attributes: self.attributes.into_iter().map(json).collect::<Result<_, Error>>()?,
            run: self.run.clone(),
            workflow: self.workflow,
            version: self.version,
            status: self.status,
            queue: Queue::at_least_once(self.queue),
            started_at: Timestamp(self.started_at),
            closed_at: self.closed_at.map(Timestamp),
            cursor: self.cursor,
            length: self.length,
            last_commit: self.last_commit.and_then(|id| id.parse().ok()).map(CommitId::from_number),
            key: self.key,
            parent: self.parent.map(|ParentJson { run, seq }| ParentRef { run, seq }),
            next_timer,
            output: self.output.unwrap_or_default().into(),
            error: self.error,
        })
    }
}
