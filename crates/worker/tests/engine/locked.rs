//! A job that is locked by an open transaction delays no other job.

use tidemill_core::JobId;
use tidemill_core::job::JobState;
use tidemill_worker::{EventKind, Fail};

use crate::fault_plan::{Lock, Verb};
use crate::world::{Background, Ping, World, with_timeout};

async fn plain(job: Ping) -> Result<u32, Fail> {
    Ok(job.n)
}

/// The ids of the next `jobs` jobs that are done.
async fn done(running: &mut Background, jobs: usize) -> Vec<JobId> {
    let mut done = Vec::new();
    while done.len() < jobs {
        let event = running.next().await;
        assert_eq!(event.outcome, EventKind::Done);
        done.push(event.job);
    }
    done.sort();
    done
}

#[tokio::test]
async fn a_slow_workers_later_jobs_are_settled_while_an_earlier_one_cannot_be() {
    for lock in [Lock::Refuses, Lock::Delays] {
        let world = World::new().await;
        let jobs = world.pings(4).await;
        world.plan().lock(&jobs[0], lock);
        // With one slot, the locked job is in a batch of its own, and the others follow.
        let mut running = Background::run(world.worker().handle(plain).queue("default", 1));
        assert_eq!(done(&mut running, 3).await, jobs[1..]);
        assert_eq!(world.state(&jobs[0]).await, Some(JobState::Running));
        world.plan().unlock();
        assert_eq!(done(&mut running, 1).await, jobs[..1]);
        assert_eq!(running.stop().await.total.done, 4);
    }
}

#[tokio::test]
async fn jobs_that_end_together_with_one_that_cannot_be_settled_are_settled() {
    let world = World::new().await;
    let mut jobs = world.pings(8).await;
    let locked = jobs.remove(3);
    world.plan().lock(&locked, Lock::Refuses);
    let mut running = Background::run(world.worker().handle(plain).queue("default", 8));
    assert_eq!(done(&mut running, 7).await, jobs);
    world.plan().unlock();
    assert_eq!(done(&mut running, 1).await, [locked]);
    running.stop().await;
}

#[tokio::test]
async fn a_worker_that_stops_waits_for_what_cannot_be_settled_yet() {
    let world = World::new().await;
    let job = world.ping().await;
    world.plan().lock(&job, Lock::Refuses);
    let running = Background::run(world.worker().handle(plain).queue("default", 1));
    with_timeout(world.plan().called(Verb::Settle, 1)).await;
    running.request_stop();
    with_timeout(world.plan().called(Verb::Settle, 2)).await;
    world.plan().unlock();
    assert_eq!(running.stop().await.total.done, 1);
    assert_eq!(world.state(&job).await, Some(JobState::Done));
}

/// The clock is paused: no lease expires.
#[tokio::test]
async fn a_held_job_that_cannot_be_started_is_given_back_and_comes_again() {
    let world = World::new().await;
    let jobs = world.pings(3).await;
    world.plan().lock(&jobs[1], Lock::Refuses);
    let worker = world.worker().handle(plain).queue("default", 1).prefetch(2);
    let mut running = Background::run(worker);
    assert_eq!(done(&mut running, 2).await, [jobs[0].clone(), jobs[2].clone()]);
    world.plan().unlock();
    // Handed back, and then done.
    while running.next().await.outcome != EventKind::Done {}
    assert_eq!(world.state(&jobs[1]).await, Some(JobState::Done));
    assert_eq!(running.stop().await.total.done, 3);
}
