//! A worker is registered in the fleet: it is listed, can be ordered to drain, and leaves.

use std::time::Duration;
use tidemill_core::fleet::WorkerKind;
use tidemill_core::store::Fleet;
use tidemill_core::store::fleet::{ListWorkersParams, WorkerInfo, WorkerStatus};
use tidemill_worker::{EventKind, Fail};
use tokio::sync::mpsc;

use crate::world::{Background, Ping, World, with_timeout};

async fn plain(job: Ping) -> Result<u32, Fail> {
    Ok(job.n)
}

impl World {
    async fn members(&self) -> Vec<WorkerInfo> {
        let list = ListWorkersParams { kind: Some(&WorkerKind::jobs()), cursor: None, limit: 10 };
        self.store.list_workers(list).await.unwrap().items
    }

    /// Completes when exactly one worker is listed and `is_so` holds for it.
    async fn lists(&self, is_so: impl Fn(&WorkerInfo) -> bool) -> WorkerInfo {
        with_timeout(async {
            loop {
                let mut members = self.members().await;
                if members.len() == 1 && is_so(&members[0]) {
                    return members.remove(0);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
    }
}

#[tokio::test]
async fn a_worker_is_listed_with_what_it_does_and_leaves_when_it_ends() {
    let world = World::new().await;
    let engine = world.worker().handle(plain).queue("default", 3).at_most_once("mail", 1).build().unwrap();
    let id = format!("jobs:{}", engine.id());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn(engine.run_until(stopped));
    let info = world.lists(|_| true).await;
    assert_eq!((info.worker.id.to_string(), info.worker.endpoint.as_str(), info.active), (id, "", 0));
    let detail: serde_json::Value = serde_json::from_slice(&info.worker.detail).unwrap();
    assert_eq!(detail["kinds"], serde_json::json!(["ping"]));
    assert_eq!(
        detail["queues"][1],
        serde_json::json!({"name": "mail", "delivery": "at_most_once", "concurrency": 1})
    );
    assert_eq!(detail["pid"], std::process::id());
    stop.send(()).unwrap();
    assert!(!with_timeout(run).await.unwrap().unwrap().stopped_by_fleet);
    assert!(world.members().await.is_empty());
}

#[tokio::test]
async fn an_ordered_worker_finishes_what_runs_claims_no_more_and_says_so() {
    let world = World::new().await;
    world.ping().await;
    let (begun, mut begins) = mpsc::channel(1);
    let (finish, finishes) = tokio::sync::watch::channel(false);
    let handler = move |job: Ping| {
        let (begun, mut finishes) = (begun.clone(), finishes.clone());
        async move {
            begun.send(()).await?;
            finishes.wait_for(|finish| *finish).await?;
            Ok::<_, Fail>(job.n)
        }
    };
    let mut running = Background::run(world.worker().handle(handler).queue("default", 5));
    begins.recv().await.unwrap();
    let member = world.lists(|_| true).await.worker.id;
    // A wake-up delivers the order: the store's clock is paused.
    assert!(world.store.drain(&member).await.unwrap());
    world.lists(|info| info.worker.status == WorkerStatus::Draining).await;
    let late = world.ping().await;
    finish.send(true).unwrap();
    assert_eq!(running.next().await.outcome, EventKind::Done);
    let report = running.ended().await;
    assert_eq!((report.stopped_by_fleet, report.total.claimed, report.total.done), (true, 1, 1));
    assert!(world.members().await.is_empty());
    assert_eq!(world.state(&late).await, Some(tidemill_core::job::JobState::Ready));
}

#[tokio::test]
async fn an_order_nobody_told_of_is_heard_with_the_next_beat() {
    let world = World::new().await;
    world.mute();
    let running = Background::run(world.worker().handle(plain).queue("default", 1));
    let member = world.lists(|_| true).await.worker.id;
    world.store.drain(&member).await.unwrap();
    assert!(world.as_time_passes(running.ended()).await.stopped_by_fleet);
}

#[tokio::test]
async fn a_store_that_lost_its_data_has_the_worker_again_with_the_next_beat() {
    let world = World::new().await;
    let running = Background::run(world.worker().handle(plain).queue("default", 1));
    let before = world.lists(|_| true).await.worker;
    world.store.part(std::slice::from_ref(&before.id)).await.unwrap();
    let again = world.as_time_passes(world.lists(|_| true)).await.worker;
    assert_eq!((again.id, again.detail), (before.id, before.detail));
    running.stop().await;
}

#[tokio::test]
async fn an_anonymous_worker_is_not_listed() {
    let world = World::new().await;
    world.ping().await;
    let mut running = Background::run(world.worker().handle(plain).queue("default", 1).anonymous());
    assert_eq!(running.next().await.outcome, EventKind::Done);
    world.as_time_passes(tokio::time::sleep(Duration::from_millis(20))).await;
    assert!(world.members().await.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn a_worker_that_died_is_taken_off_the_roster_by_another() {
    let world = World::new().await;
    let dead = Background::run(world.worker().handle(plain).queue("default", 1));
    let member = world.lists(|_| true).await.worker.id;
    dead.kill().await;
    let running = Background::run(world.worker().handle(plain).queue("default", 1));
    world.as_time_passes(world.lists(|info| info.worker.id != member)).await;
    running.stop().await;
}
