//! The order example in a worker that may be killed at each of its awaits. The workflow is the example's own file: what
//! is shown is what is tested.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidemill::{Ctx, Fail, JobContext, RunWorkflows, State, WorkerBuilder, WorkflowError};

use crate::act::Desk;
use crate::fate::{Doom, Point};
use crate::ledger::Step;

#[path = "../../tidemill/examples/order/workflow.rs"]
pub(crate) mod example;

use example::{CHARGE, ORDER, Order, REFUND, Receipt, SHIP};

/// A worker that runs orders, too.
pub fn handlers(worker: WorkerBuilder, doom: &Arc<Doom>) -> WorkerBuilder {
    let doom = doom.clone();
    worker
        .workflow(&ORDER, move |ctx, order| watched(ctx, order, doom.clone()))
        .activity(&CHARGE, charge)
        .activity(&SHIP, ship)
        .activity(&REFUND, refund)
}

fn watched(ctx: Ctx, order: Order, doom: Arc<Doom>) -> AtEachAwait {
    AtEachAwait { code: Box::pin(example::order(ctx, order)), doom }
}

/// The workflow's code, and who is told whenever it waits.
struct AtEachAwait {
    code: Pin<Box<dyn Future<Output = Result<String, WorkflowError>> + Send>>,
    doom: Arc<Doom>,
}

impl Future for AtEachAwait {
    type Output = Result<String, WorkflowError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.code.as_mut().poll(cx);
        if polled.is_pending() {
            self.doom.reach(Point::Waits);
        }
        polled
    }
}

async fn charge(order: Order, State(desk): State<Desk>, cx: JobContext) -> Result<Receipt, Fail> {
    effect(&desk, &cx, example::charge(order, cx.clone())).await
}

async fn ship(order: Order, State(desk): State<Desk>, cx: JobContext) -> Result<String, Fail> {
    effect(&desk, &cx, example::ship(order)).await
}

async fn refund(receipt: Receipt, State(desk): State<Desk>, cx: JobContext) -> Result<(), Fail> {
    effect(&desk, &cx, example::refund(receipt)).await
}

/// The line in the ledger stands for the effect on the world outside: it is there as often as that was had.
async fn effect<T>(
    desk: &Desk,
    cx: &JobContext,
    activity: impl Future<Output = Result<T, Fail>>,
) -> Result<T, Fail> {
    desk.doom.reach(Point::Begins);
    let result = activity.await;
    desk.ledger.note(Step::Ended, cx.id(), cx.attempt())?;
    desk.doom.reach(Point::Ends);
    result
}
