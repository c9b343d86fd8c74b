//! Doing to other runs what a run wants done. An errand that is done twice is done once: what it starts has an id, and
//! what it says too.

use tidemill_core::dead::{Cause, Reason};
use tidemill_core::store::runs::{Delivered, Parent as Kin, Started as Begun};
use tidemill_core::workflow::{
    Asker, ChildEnd, Event, Parent, RunId, Sent, StartChild, Started, StoredSignal, Told,
};
use tidemill_core::{Envelope, Error, Outcome, Store};
use tidemill_worker::JobContext;

use super::setback::Setback;
use crate::client::terminate;
use crate::wire::{Birth, Errand, deliver, route_of, started_by};

/// Runs an errand.
pub(super) async fn run(envelope: &Envelope, cx: &JobContext) -> Outcome {
    let errand = match serde_json::from_slice(envelope.payload()) {
        Ok(errand) => errand,
        Err(error) => return unreadable(&error),
    };
    let done = run_errand(errand, envelope, cx).await;
    done.unwrap_or_else(|setback| setback.postpone(envelope))
}

async fn run_errand(errand: Errand, envelope: &Envelope, cx: &JobContext) -> Result<Outcome, Setback> {
    let store = &**cx.mill().store();
    // Twice is once: the job's id tells this errand from every other.
    let id = envelope.id().as_str().to_owned();
    let told = match (errand, envelope.asker()) {
        (Errand::Start(child), Some(asker)) => start(*child, asker, cx).await?,
        (Errand::Signal { run, name, payload }, Some(asker)) => {
            let signal = Event::Signal(StoredSignal { name, payload, id: id.clone() });
            let result = sent(&run, deliver(store, &run, signal, Some(id)).await?);
            Some(Event::SignalSent { seq: asker.seq, result })
        }
        (Errand::Cancel { run, parent, reason }, _) => {
            let (starting, event) =
                (is_starting(store, &parent).await?, Event::CancelRequested { reason: Some(reason) });
            let delivered = deliver(store, &run, event, Some(id)).await?;
            not_before(starting, delivered != Delivered::NotFound)?;
            None
        }
        (Errand::Terminate { run, parent, reason }, _) => {
            let starting = is_starting(store, &parent).await?;
            not_before(starting, terminate(store, &run, &reason).await?.is_found())?;
            None
        }
        (Errand::Tell { run, event }, _) => {
            deliver(store, &run, event, Some(id)).await?;
            None
        }
        (Errand::Start(_) | Errand::Signal { .. }, None) => None,
    };
    Ok(Outcome::Tell(told.map(Box::new)))
}

/// Whether a child may be about to be started. Asked before it is looked for: if the errand that starts it is gone by
/// then, the child is there, or never will be.
async fn is_starting(store: &dyn Store, parent: &Parent) -> Result<bool, Error> {
    Ok(store.get(&started_by(parent)).await?.is_some_and(|info| !info.state.is_final()))
}

/// A child that is not there and may be about to be started is looked for again.
fn not_before(starting: bool, found: bool) -> Result<(), Setback> {
    match starting && !found {
        true => Err(Setback::NotYet("the child is being started".to_owned())),
        false => Ok(()),
    }
}

async fn start(child: StartChild, asker: &Asker, cx: &JobContext) -> Result<Option<Event>, Setback> {
    let StartChild { seq, workflow, version, input, run, told, keep_ms, .. } = child;
    let store = &**cx.mill().store();
    let parent = Some(Parent { run: asker.run.clone(), seq, told });
    let started = Started { parent, keep_ms, ..Started::new(workflow, version, input) };
    let birth = Birth { route: route_of(cx.queue()), ..Birth::new(run.clone(), started) };
    let begun = match store.start_run(&birth.new_run(store.clock().now())).await {
        Err(error @ Error::Invalid(_)) => return Ok(Some(refused(seq, error.to_string()))),
        begun => begun?,
    };
    if begun != Begun::Created && !is_own(store, &run, asker).await? {
        return Ok(Some(refused(seq, format!("run `{run}` exists already"))));
    }
    Ok((told != Told::End).then_some(Event::ChildStarted { seq, run }))
}

/// Whether the run was started by this very errand, whose word of it got lost.
async fn is_own(store: &dyn Store, run: &RunId, asker: &Asker) -> Result<bool, Error> {
    let kin = Kin { run: asker.run.clone(), seq: asker.seq };
    Ok(store.run(run).await?.is_some_and(|info| info.parent == Some(kin)))
}

fn refused(seq: u64, message: String) -> Event {
    Event::ChildDone { seq, result: ChildEnd::Failed { message } }
}

fn sent(run: &RunId, delivered: Delivered) -> Sent {
    match delivered {
        Delivered::Yes | Delivered::Again => Sent::Ok,
        Delivered::Closed(status) => Sent::Failed { message: format!("run `{run}` has ended: {status}") },
        Delivered::NotFound => Sent::Failed { message: format!("there is no run `{run}`") },
    }
}

fn unreadable(error: &serde_json::Error) -> Outcome {
    Outcome::Dead(Cause { reason: Reason::InvalidPayload, error: Some(error.to_string()) })
}
