//! Starting runs.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::clock::millis;
use tidemill_core::limits::check_duration;
use tidemill_core::retry::{Answered, ask};
use tidemill_core::store::runs::{
    ConflictPolicy, ReadJournalParams, RunKey, StartRunParams, StartRunResult as Begun,
};
use tidemill_core::workflow::{
    Entry, EntryContent, Json, Route, RunEvent, RunId, RunStarted, Topic, Version, WorkflowName,
};
use tidemill_core::{Client, Error, Store};

use super::error::RunError;
use super::handle::RunHandle;
use super::terminate::terminate;
use crate::wire::{Birth, check_key};

/// How often an existing run is terminated before somebody else is taken to start them faster.
const ROUNDS: usize = 20;

/// What to do when a run with the same key is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// The caller gets that run, open or closed.
    #[default]
    UseExisting,
    /// Nothing is started, and the caller is told: [`RunError::Exists`].
    Reject,
    /// An open run is terminated, and the new one takes its place.
    TerminateExisting,
    /// The caller gets that run if it is open. A closed one makes way for the new one.
    StartAfterClose,
}

/// A run, not yet started.
#[must_use = "a run exists only after `.start().await`"]
#[derive(Debug)]
pub struct Start<O> {
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
    limit: Option<u64>,
    output: PhantomData<fn() -> O>,
}

impl<O> Start<O> {
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
            limit: None,
            output: PhantomData,
        }
    }

    /// Gives the run this id: starting it again while it is in the store starts no second one.
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// Gives the run this idempotency key: of several starts with one key one starts a run, and the others get it. Keys
    /// of different workflows do not meet.
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Says what to do when there is a run with this key.
    pub fn on_conflict(mut self, policy: OnConflict) -> Self {
        self.conflict = policy;
        self
    }

    /// Starts it for this version of the workflow's code.
    pub fn version(mut self, version: &str) -> Self {
        self.version = version.to_owned();
        self
    }

    /// Sends its tasks this way: to workers that serve the route.
    pub fn route(mut self, route: &str) -> Self {
        self.route = Some(route.to_owned());
        self
    }

    /// Sets something that the run can be found by.
    pub fn attribute<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        let value = Json::from_value(value).map_err(|error| error.to_string());
        self.attributes.push((name.to_owned(), value));
        self
    }

    /// Keeps the run this long after its end (a day unless set), and so its children, and the run it is reset to.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Lets its journal grow to this many entries (50,000 unless set).
    pub fn journal_limit(mut self, entries: u64) -> Self {
        self.limit = Some(entries);
        self
    }

    /// Checks everything.
    fn birth(self) -> Result<Birth, Error> {
        let workflow = WorkflowName::new(&self.workflow)?;
        let input = self.input?;
        let (size, most) = (input.as_str().len(), self.client.payload_limit());
        if size > most {
            let name = &self.workflow;
            let message =
                format!("the input of workflow `{name}` has {size} bytes; at most {most} are allowed");
            return Err(Error::Invalid(message));
        }
        let run = identity(&self.client, &workflow, self.id.as_deref(), self.key.as_deref())?;
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
        let (key, limit) = (self.key.clone(), self.limit);
        let request_id = self.id.is_some().then(|| RunId::generate().to_string());
        check_duration("the time for which a run is kept", self.keep.unwrap_or_default())?;
        let keep_ms = self.keep.map(|keep| millis(keep).unsigned_abs());
        let conflict = match self.conflict {
            OnConflict::UseExisting => ConflictPolicy::UseExisting,
            OnConflict::Reject => ConflictPolicy::Reject,
            OnConflict::TerminateExisting | OnConflict::StartAfterClose => ConflictPolicy::StartAfterClose,
        };
        Ok(Birth {
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
            attributes: attributes(self.attributes)?,
        })
    }
}

impl<O: DeserializeOwned> Start<O> {
    /// Starts the run. When this returns, it will run to its end.
    pub async fn start(self) -> Result<RunHandle<O>, RunError> {
        let (client, policy, named) = (self.client.clone(), self.conflict, self.id.is_some());
        let new = self.birth()?.new_run(client.store().clock().now());
        let watch = client.watch_if_listening(&new.run.task());
        let mut terminated = None;
        for _ in 0..ROUNDS {
            let begun =
                begin(&client, &new).await.map_err(|error| leaves_terminated(error, terminated.as_ref()));
            match begun? {
                Begun::Created => return Ok(RunHandle::watched(&client, new.run, watch)),
                Begun::Existing(run) | Begun::Rejected(run) if policy == OnConflict::Reject => {
                    return Err(RunError::Exists(run));
                }
                Begun::Existing(run) if policy == OnConflict::TerminateExisting => {
                    terminate(&**client.store(), &run, "another run takes its place").await?;
                    terminated = Some(run);
                }
                Begun::Existing(run) | Begun::Rejected(run) => {
                    if named {
                        is_one_of(&client, &run, &new.workflow).await?;
                    }
                    return Ok(RunHandle::new(&client, run, false));
                }
            }
        }
        let message = format!("runs like `{}` are started faster than they can be terminated", new.run);
        Err(Error::Unavailable { message, source: None }.into())
    }
}

/// Ids are for runs of all workflows: the one that has it may be of another.
async fn is_one_of(client: &Client, run: &RunId, workflow: &WorkflowName) -> Result<(), RunError> {
    let store = &**client.store();
    match ask(store.clock(), || store.get_run(run)).await?.value {
        Some(info) if info.workflow != *workflow => {
            Err(RunError::OtherWorkflow { run: run.clone(), workflow: info.workflow })
        }
        _ => Ok(()),
    }
}

/// Starts a run. If an earlier call got no answer, the run that is there may be the very one that it has started.
pub(super) async fn begin(client: &Client, new: &StartRunParams) -> Result<Begun, Error> {
    let store = &**client.store();
    let Answered { value, after_unknown } = ask(store.clock(), || store.start_run(new)).await?;
    match value {
        Begun::Existing(run) | Begun::Rejected(run)
            if after_unknown && run == new.run && is_same(store, new).await? =>
        {
            Ok(Begun::Created)
        }
        begun => Ok(begun),
    }
}

/// Whether this very request has started the run that is there. An id that was generated for it is proof enough.
async fn is_same(store: &dyn Store, new: &StartRunParams) -> Result<bool, Error> {
    let Some(request) = new.journal.first().and_then(|written| request_id(&written.entry)) else {
        return Ok(true);
    };
    let read = || store.read_journal(ReadJournalParams { run: &new.run, from: 1, limit: 1, bytes: 1 });
    let first = ask(store.clock(), read).await?.value;
    Ok(first.first().and_then(|(_, written)| request_id(&written.entry)).is_some_and(|id| id == request))
}

fn request_id(entry: &[u8]) -> Option<String> {
    match Entry::read(entry).ok()?.what {
        EntryContent::Event(RunEvent::Started(started)) => started.request_id,
        _ => None,
    }
}

/// Says that a run which was to be replaced has ended, if nothing else does.
pub(super) fn leaves_terminated(error: Error, run: Option<&RunId>) -> Error {
    let said = |run: &RunId| format!("run `{run}` was terminated, and the run that takes its place");
    match (error, run) {
        (Error::Unavailable { message, source }, Some(run)) => {
            Error::Unavailable { message: format!("{} was not started: {message}", said(run)), source }
        }
        (Error::Unanswered { message, source }, Some(run)) => Error::Unanswered {
            message: format!("{} may not have been started: {message}", said(run)),
            source,
        },
        (error, _) => error,
    }
}

/// The id of a new run. One with a key lies where its key does.
fn identity(
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

fn attributes(given: Vec<(String, Result<Json, String>)>) -> Result<BTreeMap<Topic, Json>, Error> {
    let check = |(name, value): (String, Result<Json, String>)| {
        let unfit = |error| Error::Invalid(format!("search attribute `{name}` is not JSON: {error}"));
        Ok((Topic::new(&name)?, value.map_err(unfit)?))
    };
    given.into_iter().map(check).collect()
}
