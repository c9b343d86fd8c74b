//! The store becomes unavailable and available again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidemill_core::job::JobState;
use tidemill_worker::{EventKind, Fail};

use crate::fault_plan::{Fault, Verb};
use crate::world::{Background, Ping, World, with_timeout};

async fn plain(job: Ping) -> Result<u32, Fail> {
    Ok(job.n)
}

#[tokio::test]
async fn a_settlement_is_repeated_until_it_sticks() {
    let world = World::new().await;
    let job = world.ping().await;
    world.plan().next(Verb::Settle, Fault::Away, 3);
    let report = with_timeout(world.worker().handle(plain).queue("default", 1).drain()).await.unwrap();
    assert_eq!((report.total.done, world.plan().count(Verb::Settle)), (1, 4));
    assert_eq!(world.state(&job).await, Some(JobState::Done));
}

#[tokio::test]
async fn a_settlement_whose_answer_was_lost_has_taken_place_once_and_is_counted_and_told() {
    let world = World::new().await;
    let job = world.ping().await;
    world.plan().next(Verb::Settle, Fault::AnswerLost, 1);
    let mut running = Background::run(world.worker().handle(plain).queue("default", 1));
    assert_eq!(running.next().await.outcome, EventKind::Done);
    let report = running.stop().await;
    assert_eq!((report.total.claimed, report.total.done, report.total.lost), (1, 1, 0));
    assert_eq!(world.state(&job).await, Some(JobState::Done));
}

#[tokio::test]
async fn a_settlement_whose_lease_may_have_run_out_before_it_was_answered_is_not_counted_as_done() {
    let world = World::new().await;
    world.ping().await;
    // The pauses between these tries exceed the lease, so another worker may have the job by then.
    world.plan().next(Verb::Settle, Fault::AnswerLost, 1);
    world.plan().next(Verb::Settle, Fault::Away, 3);
    let worker = world.worker().handle(plain).queue("default", 1).lease(Duration::from_millis(300));
    let report = with_timeout(worker.drain()).await.unwrap();
    assert_eq!((report.total.done, report.total.lost), (0, 1));
}

#[tokio::test]
async fn a_settlement_that_began_after_the_lease_is_not_counted_as_done_either() {
    let world = World::new().await;
    world.ping().await;
    world.plan().next(Verb::Settle, Fault::AnswerLost, 1);
    // The store's clock is paused, so no heartbeat extends the lease.
    let lease = Duration::from_millis(900);
    let slow = move |job: Ping| async move {
        tokio::time::sleep(lease).await;
        Ok::<_, Fail>(job.n)
    };
    let worker = world.worker().handle(slow).queue("default", 1).lease(lease);
    let report = with_timeout(worker.drain()).await.unwrap();
    assert_eq!((report.total.done, report.total.lost), (0, 1));
}

#[tokio::test]
async fn a_settlement_the_store_chokes_on_does_not_hold_up_the_others() {
    let world = World::new().await;
    world.pings(10).await;
    // The batch is rejected, then its first job; the others are settled one by one.
    world.plan().next(Verb::Settle, Fault::Refused, 2);
    let worker = world.worker().handle(plain).queue("default", 10);
    let report = Background::run(worker);
    let mut report = report;
    for _ in 0..9 {
        assert_eq!(report.next().await.outcome, EventKind::Done);
    }
    let report = report.stop().await;
    assert_eq!((report.total.done, report.total.lost), (9, 1));
}

#[tokio::test]
async fn claiming_goes_on_after_every_kind_of_outage() {
    let world = World::new().await;
    let mut running = Background::run(world.worker().handle(plain).queue("default", 2));
    for verb in [Verb::Claim, Verb::Settle, Verb::Promote, Verb::Expired] {
        world.plan().next(verb, Fault::Away, 3);
        world.ping().await;
        assert_eq!(running.next().await.outcome, EventKind::Done);
    }
    running.stop().await;
}

#[tokio::test]
async fn an_outage_makes_few_errors() {
    let world = World::new().await;
    world.plan().always(Verb::Claim, Fault::Away);
    let mut running = Background::run(world.worker().handle(plain).queue("default", 2));
    let begun = std::time::Instant::now();
    with_timeout(world.plan().called(Verb::Claim, 5)).await;
    // 100, 200, 400 and 800 ms lie between five errors; a busy machine only makes it longer.
    assert!(begun.elapsed().as_millis() >= 1_500);
    world.plan().heal();
    world.ping().await;
    assert_eq!(running.next().await.outcome, EventKind::Done);
    running.stop().await;
}

#[tokio::test]
async fn calls_that_never_answer_do_not_stop_the_heartbeat_or_the_other_queue() {
    let world = World::new().await;
    let handler =
        |job: Ping| async move { if job.n == 1 { std::future::pending().await } else { Ok::<_, Fail>(0) } };
    world.client.job(Ping { n: 1 }).enqueue().await.unwrap();
    let mut running = Background::run(world.worker().handle(handler).queue("default", 1).queue("other", 1));
    with_timeout(world.plan().called(Verb::Claim, 2)).await;
    for verb in [Verb::Promote, Verb::Expired, Verb::Queues] {
        world.plan().always(verb, Fault::Silent);
    }
    world.as_time_passes(world.plan().called(Verb::Extend, 3)).await;
    world.client.job(Ping { n: 0 }).queue("other").enqueue().await.unwrap();
    assert_eq!(running.next().await.outcome, EventKind::Done);
    running.request_stop();
    drop(running);
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_costs_no_attempt_and_no_lease() {
    let world = World::new().await;
    let jobs: Vec<_> = (0..3).map(|n| Ping { n }).collect();
    let jobs = world.client.jobs(jobs).max_attempts(1).enqueue().await.unwrap();
    world.plan().next(Verb::Claim, Fault::AnswerLost, 1);
    // The store's clock is paused, so no lease expires.
    let report = with_timeout(world.worker().handle(plain).queue("default", 3).drain()).await.unwrap();
    assert_eq!((report.total.done, report.total.dead), (3, 0));
    for job in &jobs {
        assert_eq!(world.state(job).await, Some(JobState::Done));
    }
}

#[tokio::test]
async fn what_a_part_of_a_store_gave_without_an_answer_is_recovered_too() {
    let world = World::new().await;
    world.pings(3).await;
    world.store.shard.is_lost.store(true, Ordering::SeqCst);
    let report = with_timeout(world.worker().handle(plain).queue("default", 3).drain()).await.unwrap();
    assert!(!world.store.shard.is_lost.load(Ordering::SeqCst), "nothing was lost");
    assert_eq!((report.total.done, report.total.dead), (3, 0));
}

#[tokio::test]
async fn a_lost_recovery_is_repeated() {
    let world = World::new().await;
    let job = world.ping().await;
    world.plan().next(Verb::Claim, Fault::AnswerLost, 1);
    world.plan().next(Verb::Recover, Fault::AnswerLost, 2);
    let report = with_timeout(world.worker().handle(plain).queue("default", 3).drain()).await.unwrap();
    assert_eq!((report.total.done, world.plan().count(Verb::Recover) >= 3), (1, true));
    assert_eq!(world.state(&job).await, Some(JobState::Done));
}

#[tokio::test]
async fn recovered_jobs_run_beside_those_that_are_running() {
    let world = World::new().await;
    let (open, gate) = tokio::sync::watch::channel(false);
    let handler = move |job: Ping| {
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|open| *open).await?;
            Ok::<_, Fail>(job.n)
        }
    };
    world.ping().await;
    let mut running = Background::run(world.worker().handle(handler).queue("default", 2));
    with_timeout(world.plan().called(Verb::Claim, 2)).await;
    world.plan().next(Verb::Claim, Fault::AnswerLost, 1);
    // The pending claim takes this job and its answer arrives; the next claim's answer is lost.
    world.ping().await;
    world.ping().await;
    open.send(true).unwrap();
    for _ in 0..3 {
        assert_eq!(running.next().await.outcome, EventKind::Done);
    }
    assert_eq!(running.stop().await.total.done, 3);
}

#[tokio::test]
async fn a_worker_that_ends_hands_back_what_a_failed_claim_took() {
    let world = World::new().await;
    let job = world.ping().await;
    world.plan().always(Verb::Claim, Fault::AnswerLost);
    world.plan().next(Verb::Recover, Fault::Away, 1);
    let running = Background::run(world.worker().handle(plain).queue("default", 1));
    with_timeout(world.plan().called(Verb::Recover, 1)).await;
    running.stop().await;
    assert_eq!(world.state(&job).await, Some(JobState::Ready));
    assert_eq!(world.envelope(&job).await.attempts(), 0);
}
