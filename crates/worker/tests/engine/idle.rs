//! An idle worker makes few store calls.

use std::time::Duration;

use tidemill_core::Clock;
use tidemill_worker::Fail;

use crate::fault_plan::Verb;
use crate::world::{Background, Ping, World};

/// The number of calls of a worker with this many queues in one minute.
async fn calls_in_a_minute(queues: usize) -> usize {
    let world = World::new().await;
    let handler = |job: Ping| async move { Ok::<_, Fail>(job.n) };
    let worker =
        (0..queues).fold(world.worker().handle(handler), |worker, n| worker.queue(&format!("q{n}"), 9));
    let running = Background::run(worker);
    let (begun, minute) = (world.clock.now(), Duration::from_secs(60));
    let over = async {
        while begun.until(world.clock.now()) < minute {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    world.as_time_passes(over).await;
    let calls = world.plan().calls().len();
    running.stop().await;
    calls
}

#[tokio::test]
async fn an_idle_worker_makes_at_most_two_calls_a_second_however_many_queues_it_has() {
    for queues in [1, 3, 10] {
        let calls = calls_in_a_minute(queues).await;
        assert!(calls <= 120, "{calls} calls with {queues} queues");
    }
}

/// Another program may schedule a job without publishing a wake-up.
#[tokio::test]
async fn a_worker_looks_for_due_jobs_as_often_with_many_queues_as_with_one() {
    let (world, many) = (World::new().await, 200);
    let handler = |job: Ping| async move { Ok::<_, Fail>(job.n) };
    let worker =
        (0..many).fold(world.worker().handle(handler), |worker, n| worker.queue(&format!("q{n}"), 1));
    let running = Background::run(worker);
    let (begun, mut looks) = (world.clock.now(), 0);
    while begun.until(world.clock.now()) < Duration::from_secs(2_000) {
        let before = world.clock.now();
        looks += 1;
        world.as_time_passes(world.plan().called(Verb::Promote, looks)).await;
        // Time advances in large steps here, so a pause of five seconds takes longer. One pause per
        // queue would make a thousand.
        let pause = before.until(world.clock.now());
        assert!(pause < Duration::from_secs(300), "{pause:?} before look {looks}");
    }
    running.stop().await;
}
