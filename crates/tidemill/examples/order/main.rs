//! A durable workflow: charges, waits for an approval, and refunds without one. `cargo run -p
//! tidemill --example order`
//!
//! With a store that outlives the process (`… --example order sqlite:order.db`), kill the process
//! at any moment and start it again. The run continues where it was, and nothing is charged twice.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod workflow;

use tidemill::Worker;
use tidemill::workflow::{RunWorkflows, StartWorkflows};
use workflow::{APPROVE, CHARGE, ORDER, Order, REFUND, SHIP, STATUS, charge, order, refund, ship};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite::memory:".to_owned());
    let client = tidemill::connect(&url).await?;
    let worker = Worker::builder(&client)
        .workflow(&ORDER, order)
        .activity(&CHARGE, charge)
        .activity(&SHIP, ship)
        .activity(&REFUND, refund)
        .build()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run_until(stopped));

    let order = Order { id: "order-7".into(), cents: 9_999 };
    let run = client.workflow(&ORDER, order).key("order-7").start().await?;
    println!("{} run {}", if run.created() { "started" } else { "found" }, run.id());
    println!("status: {}", run.query(&STATUS, &()).await?);
    if let Err(error) = run.signal(&APPROVE, &true).await {
        println!("it needs no approval any more: {error}");
    }
    println!("result: {}", run.wait().await?);

    drop(stop);
    running.await??;
    Ok(())
}
