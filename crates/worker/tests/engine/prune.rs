//! Records are removed as fast as they are created.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidemill_worker::Fail;

use crate::world::{Background, Ping, World, with_timeout};

/// More than several calls remove.
const RECORDS: u32 = 3_500;

/// Waits until this many records have been pruned.
async fn until_pruned(world: &World, records: u64) {
    while world.store.pruned.load(Ordering::SeqCst) < records {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn one_round_removes_every_record_whose_time_is_over() {
    let world = World::new().await;
    let pings = (0..RECORDS).map(|n| Ping { n });
    world.client.jobs(pings).keep_result(Duration::from_secs(1)).enqueue().await.unwrap();
    let handler = |job: Ping| async move { Ok::<_, Fail>(job.n) };
    let running = Background::run(world.worker().handle(handler).queue("default", 100));
    with_timeout(async {
        while world.queue_info().await.running + world.queue_info().await.ready > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    world.as_time_passes(until_pruned(&world, 1)).await;
    // The clock is paused from here on: no other round starts.
    with_timeout(until_pruned(&world, RECORDS.into())).await;
    running.stop().await;
}
