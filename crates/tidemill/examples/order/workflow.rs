//! The workflow of the example: charges, waits for an approval, and refunds without one. The
//! torture tests run this file in workers that are killed at each of its awaits.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tidemill::workflow::RetryPolicy;
use tidemill::{Activity, Ctx, Fail, JobContext, Query, Signal, Workflow, WorkflowError, days, secs, select};

/// An order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The id of the order.
    pub(crate) id: String,
    /// The price.
    pub(crate) cents: u64,
}

/// The receipt of a charge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Receipt {
    /// The idempotency key of the charge.
    pub(crate) id: String,
    /// The amount.
    pub(crate) cents: u64,
}

/// Charges the card.
pub(crate) const CHARGE: Activity<Order, Receipt> = Activity::new("charge");
/// Sends the parcel.
pub(crate) const SHIP: Activity<Order, String> = Activity::new("ship");
/// Refunds the charge.
pub(crate) const REFUND: Activity<Receipt, ()> = Activity::new("refund");
/// The approval of the order.
pub(crate) const APPROVE: Signal<bool> = Signal::new("approve");
/// The state of the order.
pub(crate) const STATUS: Query<(), String> = Query::new("status");
/// The workflow of an order.
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

/// The job's id is the same in every attempt, so the payment provider can tell a second attempt
/// from a second order.
pub(crate) async fn charge(order: Order, cx: JobContext) -> Result<Receipt, Fail> {
    println!("charging {} cents for {} (attempt {}, key {})", order.cents, order.id, cx.attempt(), cx.id());
    Ok(Receipt { id: cx.id().to_string(), cents: order.cents })
}

/// Sends the parcel.
pub(crate) async fn ship(order: Order) -> Result<String, Fail> {
    println!("shipping {}", order.id);
    Ok(format!("parcel of {}", order.id))
}

/// Refunds the charge.
pub(crate) async fn refund(receipt: Receipt) -> Result<(), Fail> {
    println!("refunding {} cents of {}", receipt.cents, receipt.id);
    Ok(())
}
