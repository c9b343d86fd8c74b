//! The delay until a job of another process starts. Measured, not asserted: run it with `cargo test
//! --release -p tidemill --test wake -- --ignored --nocapture latency`.
#![allow(clippy::print_stdout, reason = "a measurement is printed")]

use std::time::{Duration, Instant};

use tidemill::Client;

use crate::world::{Background, Ping, World};

/// Jobs, one at a time, with a pause in between.
const JOBS: u32 = 300;

/// Jobs without a wake-up.
const FEW: u32 = 10;

/// The first ones open connections and prepare statements.
const WARM_UP: u32 = 20;

async fn measure(way: &str, jobs: u32, (maker, client): (&Client, &Client)) {
    let mut worker = Background::start(client);
    let mut times = Vec::new();
    for number in 0..jobs + WARM_UP {
        tokio::time::sleep(Duration::from_millis(15)).await;
        let begun = Instant::now();
        let started = async {
            while worker.next().await != number {}
            begun.elapsed()
        };
        let (started, made) = tokio::join!(started, maker.job(Ping(number)).enqueue());
        made.unwrap();
        if number >= WARM_UP {
            times.push(started);
        }
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("enqueue to start, {way}: p50 {:.1?}, p95 {:.1?}, p99 {:.1?}", at(0.5), at(0.95), at(0.99));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn latency() {
    let world = World::new();
    measure("woken through Redis", JOBS, (&world.usual().await, &world.usual().await)).await;
    measure("woken by LISTEN", JOBS, (&world.listening().await, &world.listening().await)).await;
    let client = world.silent().await;
    measure("in one process", JOBS, (&client, &client)).await;
    // No wake-ups, so only the poll finds the job.
    measure("by looking", FEW, (&world.silent().await, &world.silent().await)).await;
}
