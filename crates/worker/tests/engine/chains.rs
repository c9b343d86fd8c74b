//! Chains in a worker: typed steps, branches, loops, fan-out and fan-in, completion from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use tidemill_core::client::WaitError;
use tidemill_core::job::JobState;
use tidemill_core::store::{Completed, Deleted};
use tidemill_core::{Chain, Dedup, Job, JobId, Next};
use tidemill_worker::{EventKind, Fail, JobContext, State, Worker, WorkerBuilder};
use tokio::sync::Notify;

use crate::world::{Background, World, with_timeout};

/// Counts down to zero, then returns the number of steps.
struct Countdown;
impl Chain for Countdown {
    type Output = u32;
}

#[derive(Serialize, Deserialize)]
struct Count {
    left: u32,
    steps: u32,
}
impl Job for Count {
    const KIND: &'static str = "count";
    type Output = Next<Countdown>;
}

#[derive(Serialize, Deserialize)]
struct Tell {
    steps: u32,
}
impl Job for Tell {
    const KIND: &'static str = "tell";
    const QUEUE: &'static str = "telling";
    type Output = Next<Countdown>;
}

async fn count(job: Count) -> Result<Next<Countdown>, Fail> {
    let steps = job.steps + 1;
    Ok(match job.left {
        0 => Next::job(Tell { steps }),
        left => Next::job(Count { left: left - 1, steps }),
    })
}

async fn tell(job: Tell, cx: JobContext) -> Result<Next<Countdown>, Fail> {
    assert_eq!(cx.id(), &cx.chain().at_step(job.steps));
    Ok(Next::done(job.steps))
}

fn countdown(world: &World) -> WorkerBuilder {
    world.worker().handle(count).handle(tell).queue("default", 5).queue("telling", 1)
}

#[tokio::test]
async fn a_chain_loops_branches_and_gives_its_output_to_whoever_awaits_it() {
    let world = World::new().await;
    let handle = world.client.job(Count { left: 3, steps: 0 }).enqueue().await.unwrap();
    let report = countdown(&world).drain().await.unwrap();
    assert_eq!(with_timeout(handle.wait()).await.unwrap(), 4);
    assert_eq!(report.total.done, 5);
}

#[tokio::test]
async fn each_step_is_an_event_and_only_the_last_is_done() {
    let world = World::new().await;
    let mut worker = Background::run(countdown(&world));
    world.client.job(Count { left: 0, steps: 0 }).enqueue().await.unwrap();
    assert_eq!(worker.next().await.outcome, EventKind::Continued);
    assert_eq!(worker.next().await.outcome, EventKind::Done);
    worker.stop().await;
}

/// Adds up the results of other chains.
struct Adding;
impl Chain for Adding {
    type Output = u32;
}

#[derive(Serialize, Deserialize)]
struct FanOut {
    chains: u32,
}
impl Job for FanOut {
    const KIND: &'static str = "fan_out";
    type Output = Next<Adding>;
}

#[derive(Serialize, Deserialize)]
struct FanIn;
impl Job for FanIn {
    const KIND: &'static str = "fan_in";
    type Output = Next<Adding>;
}

/// Fails once after it has started its chains: the second attempt finds them.
async fn fan_out(
    job: FanOut,
    State(tries): State<Arc<AtomicU32>>,
    cx: JobContext,
) -> Result<Next<Adding>, Fail> {
    let mut next = Next::job(FanIn);
    for left in 0..job.chains {
        let id = cx.child_id(left as usize);
        next = next.after(&cx.client().job(Count { left, steps: 0 }).id(&id).enqueue().await?);
    }
    if tries.fetch_add(1, Ordering::SeqCst) == 0 {
        return Err(Fail::retry_after("not yet", std::time::Duration::ZERO));
    }
    Ok(next)
}

async fn fan_in(_: FanIn, cx: JobContext) -> Result<Next<Adding>, Fail> {
    Ok(Next::done(cx.blockers()?.outputs::<u32>()?.into_iter().sum()))
}

#[tokio::test]
async fn a_step_starts_chains_and_the_next_one_sees_what_they_came_to() {
    let world = World::new().await;
    let handle = world.client.job(FanOut { chains: 4 }).enqueue().await.unwrap();
    let worker = countdown(&world).state(Arc::new(AtomicU32::new(0))).handle(fan_out).handle(fan_in);
    let report = worker.drain().await.unwrap();
    // Counting from n takes n + 1 steps.
    assert_eq!(with_timeout(handle.wait()).await.unwrap(), 1 + 2 + 3 + 4);
    assert_eq!((report.total.retried, report.total.dead), (1, 0));
}

#[tokio::test]
async fn a_blocker_without_an_output_leads_to_the_dead_letters() {
    let world = World::new().await;
    let blocker = world.client.job(Count { left: 0, steps: 0 }).enqueue().await.unwrap();
    let handle = world.client.job(FanIn).after(&blocker).enqueue().await.unwrap();
    assert_eq!(world.state(handle.id()).await, Some(JobState::Blocked));
    world.client.store().cancel(blocker.id()).await.unwrap();
    world.worker().handle(fan_in).queue("default", 1).drain().await.unwrap();
    let error = with_timeout(handle.wait()).await.unwrap_err();
    assert!(matches!(&error, WaitError::Dead { reason, .. } if reason == "blocker_cancelled"), "{error}");
}

#[tokio::test]
async fn a_second_start_with_the_same_key_waits_for_the_first_chain() {
    let world = World::new().await;
    let start = || world.client.job(Count { left: 1, steps: 0 }).dedup(Dedup::open("the one")).enqueue();
    let (first, second) = (start().await.unwrap(), start().await.unwrap());
    assert_eq!((first.id(), first.created(), second.created()), (second.id(), true, false));
    countdown(&world).drain().await.unwrap();
    assert_eq!(
        (with_timeout(first.wait()).await.unwrap(), with_timeout(second.wait()).await.unwrap()),
        (2, 2)
    );
}

#[tokio::test]
async fn a_job_that_is_completed_from_outside_stops_its_handler() {
    let world = World::new().await;
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (begun, dropped) = (begun.clone(), dropped.clone());
        move |_: Count| {
            let (begun, dropped) = (begun.clone(), dropped.clone());
            async move {
                let _guard = NotifyOnDrop(dropped);
                begun.notify_one();
                std::future::pending::<Result<Next<Countdown>, Fail>>().await
            }
        }
    };
    let worker =
        Background::run(world.worker().handle(handler).handle(tell).queue("default", 1).queue("telling", 1));
    let handle = world.client.job(Count { left: 9, steps: 0 }).enqueue().await.unwrap();
    with_timeout(begun.notified()).await;
    let completed = world.client.complete::<Count>(handle.id(), Next::job(Tell { steps: 1 })).await.unwrap();
    assert_eq!(completed, Completed::Yes);
    with_timeout(dropped.notified()).await;
    assert_eq!(with_timeout(handle.wait()).await.unwrap(), 1);
    assert_eq!(worker.stop().await.total.lost, 1);
}

struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_job_of_another_kind_is_not_completed() {
    let world = World::new().await;
    let handle = world.client.job(Count { left: 1, steps: 0 }).enqueue().await.unwrap();
    let error = world.client.complete::<Tell>(handle.id(), Next::done(1)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("job {} is a `count`, not a `tell`", handle.id()));
    let none = JobId::generate();
    assert_eq!(world.client.complete::<Tell>(&none, Next::done(1)).await.unwrap(), Completed::NotFound);
    assert_eq!(world.client.delete(handle.id()).await.unwrap(), Deleted::Yes);
    assert!(matches!(with_timeout(handle.wait()).await, Err(WaitError::Gone(_))));
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let world = World::new().await;
    let unkept = world.client.job(crate::world::Pong { n: 1 }).enqueue().await.unwrap();
    let start = || world.client.job(Count { left: 1, steps: 0 });
    let wrong = [
        (start().after(&unkept).enqueue().await, "its result is not kept"),
        (start().id("a~1").enqueue().await, "does not end in `~` and a number"),
        (start().id("a").dedup(Dedup::open("a")).enqueue().await, "an id of its own or a deduplication key"),
        (start().dedup(Dedup::open("")).enqueue().await, "1 to 256 bytes"),
        (start().after(&world.client.untyped_job_handle(JobId::generate())).enqueue().await, "not found"),
    ];
    for (answer, why) in wrong {
        let error = answer.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_payload_beyond_the_limit_is_not_continued_with() {
    let world = World::new().await;
    let handle = world.client.job(Count { left: 1, steps: 0 }).enqueue().await.unwrap();
    let small = world.client.clone().limits(tidemill_core::Limits { payload: 4 });
    let worker = Worker::builder(&small).handle(count).queue("default", 1);
    worker.drain().await.unwrap();
    assert_eq!(world.letter(handle.id()).await.reason.to_string(), "invalid_output");
}
