//! Doing to other runs what a run wants done. An errand that is done twice is done once: what it starts has an id, and
//! what it says too.

use tidemill_core::dead_letter::{DeathCause, DeathReason};
use tidemill_core::store::runs::{Delivered, ParentRef as Kin, StartRunResult as Begun};
use tidemill_core::workflow::{
    ChildResult, NotifyParent, Parent, Requester, RunEvent, RunId, RunStarted, SignalDelivery, StartChild,
    StoredSignal,
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
    let store = &**cx.client().store();
    // Twice is once: the job's id tells this errand from every other.
    let id = envelope.id().as_str().to_owned();
    let told = match (errand, envelope.requester()) {
        (Errand::Start(child), Some(requester)) => start(*child, requester, cx).await?,
        (Errand::Signal { run, name, payload }, Some(requester)) => {
            let signal = RunEvent::Signal(StoredSignal { name, payload, id: id.clone() });
            let result = sent(&run, deliver(store, &run, signal, Some(id)).await?);
            Some(RunEvent::SignalSent { seq: requester.seq, result })
        }
        (Errand::Cancel { run, parent, reason }, _) => {
            let (starting, event) =
                (is_starting(store, &parent).await?, RunEvent::CancelRequested { reason: Some(reason) });
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
    Ok(store.get_job(&started_by(parent)).await?.is_some_and(|info| !info.state.is_final()))
}

/// A child that is not there and may be about to be started is looked for again.
fn not_before(starting: bool, found: bool) -> Result<(), Setback> {
    match starting && !found {
        true => Err(Setback::NotYet("the child is being started".to_owned())),
        false => Ok(()),
    }
}

async fn start(
    child: StartChild,
    requester: &Requester,
    cx: &JobContext,
) -> Result<Option<RunEvent>, Setback> {
    let StartChild { seq, workflow, version, input, run, told, keep_ms, .. } = child;
    let store = &**cx.client().store();
    let parent = Some(Parent { run: requester.run.clone(), seq, told });
    let started = RunStarted { parent, keep_ms, ..RunStarted::new(workflow, version, input) };
    let birth = Birth { route: route_of(cx.queue()), ..Birth::new(run.clone(), started) };
    let begun = match store.start_run(&birth.new_run(store.clock().now())).await {
        Err(error @ Error::Invalid(_)) => return Ok(Some(refused(seq, error.to_string()))),
        begun => begun?,
    };
    if begun != Begun::Created && !is_own(store, &run, requester).await? {
        return Ok(Some(refused(seq, format!("run `{run}` exists already"))));
    }
    Ok((told != NotifyParent::End).then_some(RunEvent::ChildStarted { seq, run }))
}

/// Whether the run was started by this very errand, whose word of it got lost.
async fn is_own(store: &dyn Store, run: &RunId, requester: &Requester) -> Result<bool, Error> {
    let kin = Kin { run: requester.run.clone(), seq: requester.seq };
    Ok(store.get_run(run).await?.is_some_and(|info| info.parent == Some(kin)))
}

fn refused(seq: u64, message: String) -> RunEvent {
    RunEvent::ChildDone { seq, result: ChildResult::Failed { message } }
}

fn sent(run: &RunId, delivered: Delivered) -> SignalDelivery {
    match delivered {
        Delivered::Yes | Delivered::Again => SignalDelivery::Ok,
        Delivered::Closed(status) => {
            SignalDelivery::Failed { message: format!("run `{run}` has ended: {status}") }
        }
        Delivered::NotFound => SignalDelivery::Failed { message: format!("there is no run `{run}`") },
    }
}

fn unreadable(error: &serde_json::Error) -> Outcome {
    Outcome::Dead(DeathCause { reason: DeathReason::InvalidPayload, error: Some(error.to_string()) })
}
