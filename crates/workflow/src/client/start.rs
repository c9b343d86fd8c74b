//! Starting runs.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::clock::millis;
use tidemill_core::limits::check_duration;
use tidemill_core::retry::{Answered, repeat_until_answered};
use tidemill_core::store::runs::{ConflictPolicy, ReadJournalParams, RunKey, StartRunParams, StartRunResult};
use tidemill_core::workflow::{
    Entry, EntryContent, Json, Route, RunEvent, RunId, RunStarted, Topic, Version, WorkflowName,
};
use tidemill_core::{Client, Error, Store};

use super::error::RunError;
use super::handle::RunHandle;
use super::terminate::terminate;
use crate::task::{StartRequest, check_key};

/// How many existing runs are terminated before giving up: another client keeps starting new ones.
const MAX_TERMINATIONS: usize = 20;

/// What to do if a run with the same key exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Returns the existing run, open or closed.
    #[default]
    UseExisting,
    /// Starts nothing and returns [`RunError::Exists`].
    Reject,
    /// Terminates an open run and starts the new one.
    TerminateExisting,
    /// Returns the existing run if it is open. Starts the new one if it is closed.
    StartAfterClose,
}

/// A run to start.
#[must_use = "a run exists only after `.start().await`"]
#[derive(Debug)]
pub struct StartRun<O> {
    client: Client,
    workflow: String,
    version: String,
    input: Result<Json, Error>,
    id: Option<String>,
    key: Option<String>,
    conflict: OnConflict,
    route: Option<String>,
    attributes: Vec<(String, Result<Json, String>)>,
    keep: Option<Duration>,
    journal_limit: Option<u64>,
    output: PhantomData<fn() -> O>,
}

impl<O> StartRun<O> {
    pub(super) fn new(client: &Client, workflow: &str, version: &str, input: Result<Json, Error>) -> Self {
        Self {
            client: client.clone(),
            workflow: workflow.to_owned(),
            version: version.to_owned(),
            input,
            id: None,
            key: None,
            conflict: OnConflict::default(),
            route: None,
            attributes: Vec::new(),
            keep: None,
            journal_limit: None,
            output: PhantomData,
        }
    }

    /// Sets the run's id. While a run with this id is stored, another start returns it.
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// Sets an idempotency key. Of several starts with one key, one starts a run and the others
    /// return it. Keys are scoped to the workflow.
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Sets what to do if a run with this key exists.
    pub fn on_conflict(mut self, policy: OnConflict) -> Self {
        self.conflict = policy;
        self
    }

    /// Sets the version of the workflow's code.
    pub fn version(mut self, version: &str) -> Self {
        self.version = version.to_owned();
        self
    }

    /// Sets a route: only workers that serve it run the run's tasks.
    pub fn route(mut self, route: &str) -> Self {
        self.route = Some(route.to_owned());
        self
    }

    /// Sets a search attribute.
    pub fn attribute<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        let value = Json::from_value(value).map_err(|error| error.to_string());
        self.attributes.push((name.to_owned(), value));
        self
    }

    /// Sets how long the run is kept after its end (a day unless set). Applies to its children and
    /// to resets too.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Sets the maximum length of its journal in entries (50,000 unless set).
    pub fn journal_limit(mut self, entries: u64) -> Self {
        self.journal_limit = Some(entries);
        self
    }

    /// Validates all fields.
    fn into_request(self) -> Result<StartRequest, Error> {
        let workflow = WorkflowName::new(&self.workflow)?;
        let input = self.input?;
        let what = format!("the input of workflow `{}`", self.workflow);
        Error::check_size(what, input.as_str().len(), self.client.payload_limit())?;
        let run = choose_run_id(&self.client, &workflow, self.id.as_deref(), self.key.as_deref())?;
        if self.key.is_none()
            && matches!(self.conflict, OnConflict::TerminateExisting | OnConflict::StartAfterClose)
        {
            let message = "a run can take another's place only if both have the same key: give it one";
            return Err(Error::Invalid(message.to_owned()));
        }
        if self.id.is_some()
            && matches!(self.conflict, OnConflict::TerminateExisting | OnConflict::StartAfterClose)
        {
            let message = "a run that takes another's place cannot have its id: give it a key and no id";
            return Err(Error::Invalid(message.to_owned()));
        }
        let version = Version::new(&self.version)?;
        let (key, limit) = (self.key.clone(), self.journal_limit);
        let request_id = self.id.is_some().then(|| RunId::generate().to_string());
        check_duration("the time for which a run is kept", self.keep.unwrap_or_default())?;
        let keep_ms = self.keep.map(|keep| millis(keep).unsigned_abs());
        let conflict = match self.conflict {
            OnConflict::UseExisting => ConflictPolicy::UseExisting,
            OnConflict::Reject => ConflictPolicy::Reject,
            OnConflict::TerminateExisting | OnConflict::StartAfterClose => ConflictPolicy::StartAfterClose,
        };
        Ok(StartRequest {
            run,
            started: RunStarted {
                key,
                limit,
                keep_ms,
                request_id,
                ..RunStarted::new(workflow, version, input)
            },
            route: self.route.as_deref().map(Route::new).transpose()?,
            key: self.key.map(|key| RunKey { key, conflict }),
            attributes: parse_attributes(self.attributes)?,
        })
    }
}

impl<O: DeserializeOwned> StartRun<O> {
    /// Starts the run. When this returns, the run is stored and will run to its end.
    ///
    /// # Errors
    /// [`RunError::Exists`] if the conflict policy rejects a second run, [`RunError::OtherWorkflow`];
    /// [`RunError::Store`] with [`Error::Invalid`] and the like if an option is not valid, otherwise with
    /// the store's error.
    ///
    /// # Cancel safety
    /// A dropped call may have started the run. With an [`id`](Self::id) or a [`key`](Self::key) a second
    /// call starts no second run.
    pub async fn start(self) -> Result<RunHandle<O>, RunError> {
        let (client, policy, named) = (self.client.clone(), self.conflict, self.id.is_some());
        let new = self.into_request()?.into_params(client.store().clock().now());
        let watch = client.watch_if_listening(&new.run.task());
        let mut terminated = None;
        for _ in 0..MAX_TERMINATIONS {
            let result = start_run(&client, &new)
                .await
                .map_err(|error| with_terminated_run(error, terminated.as_ref()));
            match result? {
                StartRunResult::Created => return Ok(RunHandle::with_watch(&client, new.run, watch)),
                StartRunResult::Existing(run) | StartRunResult::Rejected(run)
                    if policy == OnConflict::Reject =>
                {
                    return Err(RunError::Exists(run));
                }
                StartRunResult::Existing(run) if policy == OnConflict::TerminateExisting => {
                    terminate(&**client.store(), &run, "another run takes its place").await?;
                    terminated = Some(run);
                }
                StartRunResult::Existing(run) | StartRunResult::Rejected(run) => {
                    if named {
                        check_workflow(&client, &run, &new.workflow).await?;
                    }
                    return Ok(RunHandle::new(&client, run, false));
                }
            }
        }
        let message = format!("runs like `{}` are started faster than they can be terminated", new.run);
        Err(Error::Unavailable { message, source: None }.into())
    }
}

/// Checks the workflow of an existing run, because ids are shared by all workflows.
async fn check_workflow(client: &Client, run: &RunId, workflow: &WorkflowName) -> Result<(), RunError> {
    let store = &**client.store();
    match repeat_until_answered(store.clock(), || store.get_run(run)).await?.value {
        Some(info) if info.workflow != *workflow => {
            Err(RunError::OtherWorkflow { run: run.clone(), workflow: info.workflow })
        }
        _ => Ok(()),
    }
}

/// Starts a run. If the answer of an earlier call was lost, an existing run may be the one that
/// call started.
pub(super) async fn start_run(client: &Client, new: &StartRunParams) -> Result<StartRunResult, Error> {
    let store = &**client.store();
    let Answered { value, after_unknown } =
        repeat_until_answered(store.clock(), || store.start_run(new)).await?;
    match value {
        StartRunResult::Existing(run) | StartRunResult::Rejected(run)
            if after_unknown && run == new.run && was_started_by(store, new).await? =>
        {
            Ok(StartRunResult::Created)
        }
        result => Ok(result),
    }
}

/// Whether this request started the existing run. An id that was generated for the request is proof
/// enough.
async fn was_started_by(store: &dyn Store, new: &StartRunParams) -> Result<bool, Error> {
    let Some(request) = new.journal.first().and_then(|stored| request_id(&stored.bytes)) else {
        return Ok(true);
    };
    let read = || store.read_journal(ReadJournalParams { run: &new.run, from: 1, limit: 1, bytes: 1 });
    let first = repeat_until_answered(store.clock(), read).await?.value;
    Ok(first.first().and_then(|(_, stored)| request_id(&stored.bytes)).is_some_and(|id| id == request))
}

fn request_id(entry: &[u8]) -> Option<String> {
    match Entry::read(entry).ok()?.content {
        EntryContent::Event(RunEvent::Started(started)) => started.request_id,
        _ => None,
    }
}

/// Adds to an error that a run was already terminated.
pub(super) fn with_terminated_run(error: Error, run: Option<&RunId>) -> Error {
    let prefix = |run: &RunId| format!("run `{run}` was terminated, and the run that takes its place");
    match (error, run) {
        (Error::Unavailable { message, source }, Some(run)) => {
            Error::Unavailable { message: format!("{} was not started: {message}", prefix(run)), source }
        }
        (Error::Unanswered { message, source }, Some(run)) => Error::Unanswered {
            message: format!("{} may not have been started: {message}", prefix(run)),
            source,
        },
        (error, _) => error,
    }
}

/// The id of a new run. A run with a key must be in the shard of its key.
fn choose_run_id(
    client: &Client,
    workflow: &WorkflowName,
    id: Option<&str>,
    key: Option<&str>,
) -> Result<RunId, Error> {
    let keyed = key.map(|key| RunId::keyed(workflow, key));
    key.map_or(Ok(()), check_key)?;
    match (id.map(RunId::new).transpose()?, keyed) {
        (None, keyed) => Ok(keyed.unwrap_or_else(RunId::generate)),
        (Some(id), Some(keyed)) if !client.store().same_shard(&id, &keyed) => Err(Error::Invalid(format!(
            "run `{id}` lies in another shard than its key: give it an id or a key, not both"
        ))),
        (Some(id), _) if id.as_str() != id.root() && id.as_str().contains('!') => Err(Error::Invalid(
            format!("run id `{id}` has a `!`, which belongs to the ids of children and activities"),
        )),
        (Some(id), _) => Ok(id),
    }
}

fn parse_attributes(attributes: Vec<(String, Result<Json, String>)>) -> Result<BTreeMap<Topic, Json>, Error> {
    let check = |(name, value): (String, Result<Json, String>)| {
        let invalid = |error| Error::Invalid(format!("search attribute `{name}` is not JSON: {error}"));
        Ok((Topic::new(&name)?, value.map_err(invalid)?))
    };
    attributes.into_iter().map(check).collect()
}
