//! A message of another program's that wants a run to begin, in the shape that any program can write.

use tidemill_core::store::runs::{ConflictPolicy, RunKey};
use tidemill_core::workflow::{Json, RunId, RunStarted};
use tidemill_core::{Envelope, Error};
use tidemill_worker::JobContext;

use crate::wire::{Birth, Task, check_key, route_of};

/// Starts the run that the message asks for, unless it is there.
pub(super) async fn start(envelope: &Envelope, task: &Task, cx: &JobContext) -> Result<(), Error> {
    let (store, id) = (&**cx.client().store(), RunId::new(envelope.id().as_str())?);
    task.key.as_deref().map_or(Ok(()), check_key)?;
    let input = Json::from_text(String::from_utf8_lossy(envelope.payload()))
        .map_err(|error| Error::Invalid(error.to_string()))?;
    let (workflow, version) = (task.workflow.clone(), task.version.clone());
    let run = match &task.key {
        Some(key) => near(&id, RunId::keyed(&workflow, key), store),
        None => id,
    };
    let started = RunStarted { key: task.key.clone(), ..RunStarted::new(workflow, version, input) };
    let key = task.key.clone().map(|key| RunKey { key, conflict: ConflictPolicy::UseExisting });
    let birth = Birth { route: route_of(cx.queue()), key, ..Birth::new(run, started) };
    store.start_run(&birth.new_run(store.clock().now())).await.map(drop)
}

/// A run lies in the shard of its key: it has the id it was given if that lies there too.
fn near(given: &RunId, keyed: RunId, store: &dyn tidemill_core::Store) -> RunId {
    if store.same_shard(given, &keyed) { given.clone() } else { keyed }
}
