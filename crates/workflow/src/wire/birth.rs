//! A run as it is handed to a store for the first time.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tidemill_core::envelope::task_kind;
use tidemill_core::store::runs::{EntryKind, ParentRef, RunKey, StartRunParams, StoredEntry};
use tidemill_core::workflow::{
    Entry, Json, Route, RunEvent, RunId, RunStarted, Topic, Version, WORKFLOW_QUEUE, WorkflowName,
};
use tidemill_core::{Error, JobId, Kind, Queue, Timestamp};

/// How long a run is kept after its end when nobody says otherwise.
const DEFAULT_KEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a worker may die over a task before the task goes to the dead letters. Nothing else counts.
const MAX_CRASHES: u32 = 5;

/// The longest idempotency key.
const MAX_KEY: usize = 256;

/// A run that is to be started.
#[derive(Debug, Clone)]
pub(crate) struct Birth {
    pub(crate) run: RunId,
    pub(crate) started: RunStarted,
    pub(crate) route: Option<Route>,
    pub(crate) key: Option<RunKey>,
    pub(crate) attributes: BTreeMap<Topic, Json>,
}

/// The message of a run's task as any program may write and read it; the fields of a job come first.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(rename = "job_id")]
    job_id: &'a JobId,
    #[serde(rename = "task_type")]
    task_type: &'a Kind,
    attempts: u32,
    #[serde(rename = "max_attempts")]
    max_attempts: u32,
    id: &'a RunId,
    workflow_name: &'a WorkflowName,
    version: &'a Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    created_at: i64,
}

impl Birth {
    pub(crate) fn new(run: RunId, started: RunStarted) -> Self {
        Self { run, started, route: None, key: None, attributes: BTreeMap::new() }
    }

    /// What a store is told.
    pub(crate) fn new_run(self, now: Timestamp) -> StartRunParams {
        let Self { run, started, route, key, attributes } = self;
        let keep = started.keep_ms.map_or(DEFAULT_KEEP, Duration::from_millis);
        let parent =
            started.parent.as_ref().map(|parent| ParentRef { run: parent.run.clone(), seq: parent.seq });
        let opening = format!(r#","payload":{}"#, started.input);
        let (workflow, version) = (started.workflow.clone(), started.version.clone());
        let head = head(&run, &started, now);
        let entry = Entry::event(now, RunEvent::Started(Box::new(started))).write();
        StartRunParams {
            queue: workflow.queue(route.as_ref()),
            run,
            workflow,
            version,
            journal: vec![StoredEntry { kind: EntryKind::Answer, entry }],
            cursor: 0,
            effects: Vec::new(),
            head,
            opening: opening.into(),
            key,
            parent,
            keep,
            attributes,
        }
    }
}

/// The message without its closing brace: a store adds how far the run has come, and what is new.
fn head(run: &RunId, started: &RunStarted, now: Timestamp) -> Bytes {
    let (task, kind) = (run.task(), task_kind(&started.workflow));
    let head = Head {
        job_id: &task,
        task_type: &kind,
        attempts: 0,
        max_attempts: MAX_CRASHES,
        id: run,
        workflow_name: &started.workflow,
        version: &started.version,
        idempotency_key: started.key.as_deref(),
        created_at: now.0,
    };
    // Text and numbers always serialise.
    let mut head = serde_json::to_vec(&head).unwrap_or_default();
    head.pop();
    head.into()
}

/// Whether a run can have this idempotency key.
pub(crate) fn check_key(key: &str) -> Result<(), Error> {
    match key.len() {
        1..=MAX_KEY => Ok(()),
        length => Err(Error::Invalid(format!("a key has 1 to {MAX_KEY} bytes, and this one has {length}"))),
    }
}

/// The route of a queue of workflow tasks: runs that a run starts take the same.
pub(crate) fn route_of(queue: &Queue) -> Option<Route> {
    let name = queue.name.as_str().strip_prefix(WORKFLOW_QUEUE)?;
    name.split_once('/').and_then(|(_, route)| Route::new(route).ok())
}

#[cfg(test)]
mod tests {
    use tidemill_core::Envelope;
    use tidemill_core::store::runs::{RunPosition, task};

    use super::*;

    #[test]
    fn the_first_task_is_a_run_message_that_other_programs_know() {
        let started = RunStarted::new(
            "order".parse().unwrap(),
            "1.0.0".parse().unwrap(),
            Json::from_value(&[7]).unwrap(),
        );
        let birth = Birth::new("run-1".parse().unwrap(), RunStarted { key: Some("k".into()), ..started });
        let birth = Birth { route: Some("eu-west".parse().unwrap()), ..birth };
        let run = birth.new_run(Timestamp(5));
        let at = RunPosition { cursor: 0, last_commit: None };
        let message = task(&run.head, &run.opening, at, [(1, &run.journal[0].entry[..])]);
        let json: serde_json::Value = serde_json::from_slice(&message).unwrap();
        assert_eq!((&json["id"], &json["workflowName"]), (&"run-1".into(), &"order".into()));
        assert_eq!((&json["idempotencyKey"], &json["createdAt"]), (&"k".into(), &5.into()));
        assert_eq!((&json["version"], &json["payload"][0]), (&"1.0.0".into(), &7.into()));
        let envelope = Envelope::read(message).unwrap();
        assert_eq!((envelope.id(), envelope.kind().as_str()), (&run.run.task(), "workflow:order"));
        assert_eq!(route_of(&run.queue), Some("eu-west".parse().unwrap()));
    }
}
