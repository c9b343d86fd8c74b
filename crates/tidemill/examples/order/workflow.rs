//! The workflow of the example: charges, waits for an approval, and refunds if there is none. The torture tests run this
//! very file in workers that are killed at each of its awaits.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tidemill::{
    Activity, Ctx, Fail, JobContext, Query, RetryPolicy, Signal, Workflow, WorkflowError, days, secs, select,
};

/// What somebody wants.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Which order.
    pub(crate) id: String,
    /// What it costs.
    pub(crate) cents: u64,
}

/// What was charged.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Receipt {
    /// The key under which it was charged.
    pub(crate) id: String,
    /// How much.
    pub(crate) cents: u64,
}

/// Charges the card.
pub(crate) const CHARGE: Activity<Order, Receipt> = Activity::new("charge");
/// Sends the parcel.
pub(crate) const SHIP: Activity<Order, String> = Activity::new("ship");
/// Gives the money back.
pub(crate) const REFUND: Activity<Receipt, ()> = Activity::new("refund");
/// Whether somebody approves.
pub(crate) const APPROVE: Signal<bool> = Signal::new("approve");
/// What the order is at.
pub(crate) const STATUS: Query<(), String> = Query::new("status");
/// The workflow: from an order to a parcel.
pub(crate) const ORDER: Workflow<Order, String> = Workflow::new("order").version("1.0.0");

/// The workflow's code.
pub(crate) async fn order(ctx: Ctx, order: Order) -> Result<String, WorkflowError> {
    let status = Arc::new(Mutex::new("charging"));
    let seen = status.clone();
    let set = move |now| *status.lock().unwrap_or_else(PoisonError::into_inner) = now;
    ctx.on_query(&STATUS, move |()| seen.lock().unwrap_or_else(PoisonError::into_inner).to_string());

    let receipt =
        ctx.activity(&CHARGE, order.clone()).timeout(secs(30)).retry(RetryPolicy::exponential(5)).await?;
    set("waiting for approval");
    let approved = select! {
        approved = ctx.signals(&APPROVE).recv() => approved?,
        _ = ctx.sleep(days(1)) => false,
        _ = ctx.cancelled() => false,
    };
    if !approved {
        set("refunding");
        ctx.shielded().activity(&REFUND, receipt).await?;
        return Err(WorkflowError::failed("the order was not approved"));
    }
    set("shipping");
    Ok(ctx.activity(&SHIP, order).await?)
}

/// The job's id is the same in every attempt: whoever charges the card can tell a second attempt from a second order.
pub(crate) async fn charge(order: Order, cx: JobContext) -> Result<Receipt, Fail> {
    println!("charging {} cents for {} (attempt {}, key {})", order.cents, order.id, cx.attempt(), cx.id());
    Ok(Receipt { id: cx.id().to_string(), cents: order.cents })
}

/// Sends the parcel.
pub(crate) async fn ship(order: Order) -> Result<String, Fail> {
    println!("shipping {}", order.id);
    Ok(format!("parcel of {}", order.id))
}

/// Gives the money back.
pub(crate) async fn refund(receipt: Receipt) -> Result<(), Fail> {
    println!("refunding {} cents of {}", receipt.cents, receipt.id);
    Ok(())
}
