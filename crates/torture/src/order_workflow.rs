//! The order example in a worker that can be killed at each await. It uses the workflow file of the
//! example itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidemill::workflow::RunWorkflows;
use tidemill::{Ctx, Fail, JobContext, State, WorkerBuilder, WorkflowError};

use crate::job::HandlerState;
use crate::kill_points::{KillPoint, KillSwitch};
use crate::ledger::LedgerEvent;

#[path = "../../tidemill/examples/order/workflow.rs"]
pub(crate) mod example;

use example::{CHARGE, ORDER, Order, REFUND, Receipt, SHIP};

/// Adds the order example to a worker.
pub fn handlers(worker: WorkerBuilder, kill_switch: &Arc<KillSwitch>) -> WorkerBuilder {
    let kill_switch = kill_switch.clone();
    worker
        .workflow(&ORDER, move |ctx, order| kill_point_store(ctx, order, kill_switch.clone()))
        .activity(&CHARGE, charge)
        .activity(&SHIP, ship)
        .activity(&REFUND, refund)
}

fn kill_point_store(ctx: Ctx, order: Order, kill_switch: Arc<KillSwitch>) -> KillAtEachAwait {
    KillAtEachAwait { code: Box::pin(example::order(ctx, order)), kill_switch }
}

/// The workflow's future. Reports a kill point whenever it is pending.
struct KillAtEachAwait {
    code: Pin<Box<dyn Future<Output = Result<String, WorkflowError>> + Send>>,
    kill_switch: Arc<KillSwitch>,
}

impl Future for KillAtEachAwait {
    type Output = Result<String, WorkflowError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.code.as_mut().poll(cx);
        if polled.is_pending() {
            self.kill_switch.reach(KillPoint::Waits);
        }
        polled
    }
}

async fn charge(order: Order, State(state): State<HandlerState>, cx: JobContext) -> Result<Receipt, Fail> {
    effect(&state, &cx, example::charge(order, cx.clone())).await
}

async fn ship(order: Order, State(state): State<HandlerState>, cx: JobContext) -> Result<String, Fail> {
    effect(&state, &cx, example::ship(order)).await
}

async fn refund(receipt: Receipt, State(state): State<HandlerState>, cx: JobContext) -> Result<(), Fail> {
    effect(&state, &cx, example::refund(receipt)).await
}

/// Records the activity's effect on the outside world in the ledger: one entry per effect.
async fn effect<T>(
    state: &HandlerState,
    cx: &JobContext,
    activity: impl Future<Output = Result<T, Fail>>,
) -> Result<T, Fail> {
    state.kill_switch.reach(KillPoint::Begins);
    let result = activity.await;
    state.ledger.record(LedgerEvent::Ended, cx.id(), cx.attempt())?;
    state.kill_switch.reach(KillPoint::Ends);
    result
}
