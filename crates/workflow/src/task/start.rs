//! Starting a run: the request as a store receives it, and starts that other programs request.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tidemill_core::envelope::task_kind;
use tidemill_core::store::runs::{ConflictPolicy, EntryKind, ParentRef, RunKey, StartRunParams, StoredEntry};
use tidemill_core::workflow::{
    Entry, Json, Route, RunEvent, RunId, RunStarted, Topic, Version, WORKFLOW_QUEUE, WorkflowName,
};
use tidemill_core::{Envelope, Error, JobId, Kind, Queue, Store, Timestamp};
use tidemill_worker::JobContext;

use super::message::TaskMessage;

/// How long a run is kept after its end unless set.
const DEFAULT_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// How many worker crashes a task survives before it becomes a dead letter. Nothing else counts as
/// an attempt.
const MAX_TASK_CRASHES: u32 = 5;

/// The maximum length of an idempotency key.
const MAX_KEY_BYTES: usize = 256;

/// A run to start.
#[derive(Debug, Clone)]
pub(crate) struct StartRequest {
    pub(crate) run: RunId,
    pub(crate) started: RunStarted,
    pub(crate) route: Option<Route>,
    pub(crate) key: Option<RunKey>,
    pub(crate) attributes: BTreeMap<Topic, Json>,
}

/// The beginning of a run's task message, which other programs can read and write. The fields of a
/// job come first.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskMessageHead<'a> {
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

impl StartRequest {
    pub(crate) fn new(run: RunId, started: RunStarted) -> Self {
        Self { run, started, route: None, key: None, attributes: BTreeMap::new() }
    }

    /// The parameters of the store's `start_run`.
    pub(crate) fn into_params(self, now: Timestamp) -> StartRunParams {
        let Self { run, started, route, key, attributes } = self;
        let keep = started.keep_ms.map_or(DEFAULT_RETENTION, Duration::from_millis);
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
            journal: vec![StoredEntry { kind: EntryKind::CommandResult, bytes: entry }],
            cursor: 0,
            effects: Vec::new(),
            task_head: head,
            first_task_fields: opening.into(),
            key,
            parent,
            keep,
            attributes,
        }
    }
}

/// The message without its closing brace. A store appends the run's position and its new events.
fn head(run: &RunId, started: &RunStarted, now: Timestamp) -> Bytes {
    let (task, kind) = (run.task(), task_kind(&started.workflow));
    let head = TaskMessageHead {
        job_id: &task,
        task_type: &kind,
        attempts: 0,
        max_attempts: MAX_TASK_CRASHES,
        id: run,
        workflow_name: &started.workflow,
        version: &started.version,
        idempotency_key: started.key.as_deref(),
        created_at: now.0,
    };
    // Text and numbers always serialize.
    let mut head = serde_json::to_vec(&head).unwrap_or_default();
    head.pop();
    head.into()
}

/// Checks the length of an idempotency key.
pub(crate) fn check_key(key: &str) -> Result<(), Error> {
    match key.len() {
        1..=MAX_KEY_BYTES => Ok(()),
        length => {
            Err(Error::Invalid(format!("a key has 1 to {MAX_KEY_BYTES} bytes, and this one has {length}")))
        }
    }
}

/// The route of a task queue. Runs that a run starts inherit it.
pub(crate) fn queue_route(queue: &Queue) -> Option<Route> {
    let name = queue.name.as_str().strip_prefix(WORKFLOW_QUEUE)?;
    name.split_once('/').and_then(|(_, route)| Route::new(route).ok())
}

/// Starts the run that a task message of another program requests, unless it exists.
pub(super) async fn start_from_message(
    envelope: &Envelope,
    task: &TaskMessage,
    cx: &JobContext,
) -> Result<(), Error> {
    let (store, id) = (&**cx.client().store(), RunId::new(envelope.id().as_str())?);
    task.key.as_deref().map_or(Ok(()), check_key)?;
    let input = Json::from_text(String::from_utf8_lossy(envelope.payload()))
        .map_err(|error| Error::Invalid(error.to_string()))?;
    let (workflow, version) = (task.workflow.clone(), task.version.clone());
    let run = match &task.key {
        Some(key) => run_in_key_shard(&id, RunId::keyed(&workflow, key), store),
        None => id,
    };
    let started = RunStarted { key: task.key.clone(), ..RunStarted::new(workflow, version, input) };
    let key = task.key.clone().map(|key| RunKey { key, conflict: ConflictPolicy::UseExisting });
    let request = StartRequest { route: queue_route(cx.queue()), key, ..StartRequest::new(run, started) };
    store.start_run(&request.into_params(store.clock().now())).await.map(drop)
}

/// A run must be in the shard of its key. The given id is used only if it is in that shard.
fn run_in_key_shard(given: &RunId, keyed: RunId, store: &dyn Store) -> RunId {
    if store.same_shard(given, &keyed) { given.clone() } else { keyed }
}

#[cfg(test)]
mod tests {
    use tidemill_core::Envelope;
    use tidemill_core::store::runs::{RunPosition, task_envelope};

    use super::*;

    #[test]
    fn the_first_task_is_a_run_message_that_other_programs_know() {
        let started = RunStarted::new(
            "order".parse().unwrap(),
            "1.0.0".parse().unwrap(),
            Json::from_value(&[7]).unwrap(),
        );
        let request =
            StartRequest::new("run-1".parse().unwrap(), RunStarted { key: Some("k".into()), ..started });
        let request = StartRequest { route: Some("eu-west".parse().unwrap()), ..request };
        let run = request.into_params(Timestamp(5));
        let at = RunPosition { cursor: 0, last_commit: None };
        let message =
            task_envelope(&run.task_head, &run.first_task_fields, at, [(1, &run.journal[0].bytes[..])]);
        let json: serde_json::Value = serde_json::from_slice(&message).unwrap();
        assert_eq!((&json["id"], &json["workflowName"]), (&"run-1".into(), &"order".into()));
        assert_eq!((&json["idempotencyKey"], &json["createdAt"]), (&"k".into(), &5.into()));
        assert_eq!((&json["version"], &json["payload"][0]), (&"1.0.0".into(), &7.into()));
        let envelope = Envelope::read(message).unwrap();
        assert_eq!((envelope.id(), envelope.kind().as_str()), (&run.run.task(), "workflow:order"));
        assert_eq!(queue_route(&run.queue), Some("eu-west".parse().unwrap()));
    }
}
