//! A chain with a branch, a fan-out and a fan-in, an external approval, and one result.
//!
//! `cargo run -p tidemill --example checkout`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use serde::{Deserialize, Serialize};
use tidemill::{Chain, Dedup, Fail, Job, JobContext, Next, Worker};

/// The chain of an order: its steps are the jobs whose output is `Next<Checkout>`.
struct Checkout;
impl Chain for Checkout {
    type Output = String;
}

#[derive(Serialize, Deserialize)]
struct Reserve {
    order: u64,
    items: Vec<String>,
}
impl Job for Reserve {
    const KIND: &'static str = "reserve";
    type Output = Next<Checkout>;
}

/// Packs one item: a chain of one job, which other chains wait for.
#[derive(Serialize, Deserialize)]
struct Pack {
    item: String,
}
impl Job for Pack {
    const KIND: &'static str = "pack";
    type Output = u32;
}

/// No worker handles this job: it is completed from outside.
#[derive(Serialize, Deserialize)]
struct Approve {
    order: u64,
    grams: u32,
}
impl Job for Approve {
    const KIND: &'static str = "approve";
    const QUEUE: &'static str = "approvals";
    type Output = Next<Checkout>;
}

#[derive(Serialize, Deserialize)]
struct Weigh {
    order: u64,
}
impl Job for Weigh {
    const KIND: &'static str = "weigh";
    type Output = Next<Checkout>;
}

#[derive(Serialize, Deserialize)]
struct Ship {
    order: u64,
    grams: u32,
}
impl Job for Ship {
    const KIND: &'static str = "ship";
    type Output = Next<Checkout>;
}

/// Packs all items concurrently, and continues when all are packed.
async fn reserve(job: Reserve, cx: JobContext) -> Result<Next<Checkout>, Fail> {
    let mut next = Next::job(Weigh { order: job.order });
    for (number, item) in job.items.into_iter().enumerate() {
        // The same id in every attempt, so an item is packed once.
        next = next.after(&cx.client().job(Pack { item }).id(&cx.child_id(number)).enqueue().await?);
    }
    Ok(next)
}

async fn pack(job: Pack) -> Result<u32, Fail> {
    Ok(100 * u32::try_from(job.item.len()).unwrap_or(u32::MAX))
}

/// Reads the results of packing. Heavy parcels need an approval.
async fn weigh(job: Weigh, cx: JobContext) -> Result<Next<Checkout>, Fail> {
    let grams = cx.blockers()?.outputs::<u32>()?.into_iter().sum();
    println!("order {} weighs {grams} g", job.order);
    Ok(if grams > 1_000 {
        Next::job(Approve { order: job.order, grams })
    } else {
        Next::job(Ship { order: job.order, grams })
    })
}

async fn ship(job: Ship) -> Result<Next<Checkout>, Fail> {
    Ok(Next::done(format!("order {} is on its way, {} g", job.order, job.grams)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("TIDEMILL_STORE").unwrap_or_else(|_| "sqlite::memory:".into());
    let client = tidemill::connect(&url).await?;
    let items = ["lamp", "typewriter"].map(String::from).to_vec();
    let order =
        || client.job(Reserve { order: 7, items: items.clone() }).dedup(Dedup::open("order 7")).enqueue();
    let chain = order().await?;
    assert_eq!(order().await?.id(), chain.id(), "clicking twice is one order");

    let worker = || {
        Worker::builder(&client).handle(reserve).handle(pack).handle(weigh).handle(ship).queue("default", 4)
    };
    worker().drain().await?;
    client.complete::<Approve>(chain.id(), Next::job(Ship { order: 7, grams: 1_400 })).await?;
    println!("somebody said yes");
    worker().drain().await?;
    println!("{}", chain.wait().await?);
    Ok(())
}
