//! What a program does besides enqueueing: handles of jobs, queues and dead letters.

use std::time::Duration;

use tidemill_core::job::JobState;
use tidemill_core::store::{Cancelled, Completed, Deleted};
use tidemill_core::{Backoff, DeadLetterFilter, Error, Guarantee, PageParams};
use tidemill_worker::Fail;

use crate::world::{Ping, World, with_timeout};

async fn die(job: Ping) -> Result<u32, Fail> {
    Err(Fail::dead("bad", format!("ping {} failed", job.n)))
}

#[tokio::test]
async fn a_queue_is_paused_resumed_counted_and_purged_by_its_handle() {
    let (world, queue) = (World::new().await, |world: &World| world.client.queue("default"));
    assert_eq!(queue(&world).info().await.unwrap(), None);
    world.pings(3).await;
    queue(&world).pause().await.unwrap();
    let info = queue(&world).info().await.unwrap().unwrap();
    assert_eq!((info.ready, info.paused), (3, true));
    let page = queue(&world).jobs(JobState::Ready, PageParams::first(2)).await.unwrap();
    let rest = PageParams::at(page.next.unwrap(), 2);
    let rest = queue(&world).jobs(JobState::Ready, rest).await.unwrap();
    assert_eq!((page.items.len(), rest.items.len()), (2, 1));
    queue(&world).resume().await.unwrap();
    assert!(!queue(&world).info().await.unwrap().unwrap().paused);
    let once = queue(&world).guarantee(Guarantee::AtMostOnce);
    assert_eq!(once.purge().await.unwrap().jobs, 0, "the other queue of that name");
    let purged = queue(&world).purge().await.unwrap();
    assert_eq!((purged.jobs, purged.maybe_more), (3, false));
}

#[tokio::test]
async fn an_invalid_name_is_an_error_of_the_call_and_can_be_matched() {
    let world = World::new().await;
    let error = world.client.queue("no queue").pause().await.unwrap_err();
    let Error::InvalidName(name) = &error else { panic!("{error:?}") };
    assert_eq!((name.what(), name.name()), ("queue", "no queue"));
    assert!(error.is_invalid() && !error.is_transient());
    let client = world.client.clone().limits(tidemill_core::Limits { payload: 4 });
    let error = client.job(Ping { n: 1 }).enqueue().await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { size: 7, limit: 4, .. }), "{error:?}");
    assert_eq!(error.to_string(), "the payload has 7 bytes; at most 4 are allowed");
}

#[tokio::test]
async fn dead_letters_are_listed_redriven_and_dropped() {
    let world = World::new().await;
    let jobs = world.pings(3).await;
    world.worker().handle(die).queue("default", 1).drain().await.unwrap();
    let dead = world.client.dead_letters("default");
    let all = DeadLetterFilter::all();
    let page = dead.list(&all, PageParams::first(2)).await.unwrap();
    let rest = dead.list(&all, PageParams::at(page.next.unwrap(), 2)).await.unwrap();
    assert_eq!((page.items.len(), rest.items.len()), (2, 1));
    let of_one = DeadLetterFilter::all().jobs([jobs[1].clone()]);
    assert_eq!(dead.list(&of_one, PageParams::first(9)).await.unwrap().items[0].job, jobs[1]);
    let by_error = DeadLetterFilter::all().reason("bad").error("ping 2 failed");
    assert_eq!(dead.redrive(&by_error).await.unwrap(), 1);
    assert_eq!(dead.drop(&DeadLetterFilter::all()).await.unwrap(), 2);
    let info = world.client.queue("default").info().await.unwrap().unwrap();
    assert_eq!((info.ready, info.dead), (1, 0));
}

#[tokio::test]
async fn a_job_is_cancelled_completed_and_deleted_by_its_handle() {
    let world = World::new().await;
    let enqueue = || world.client.job(Ping { n: 1 }).enqueue();
    let job = enqueue().await.unwrap();
    assert!(job.created() && job.info().await.unwrap().unwrap().state == JobState::Ready);
    assert_eq!(job.cancel().await.unwrap(), Cancelled::Removed);
    let job = enqueue().await.unwrap();
    assert_eq!(job.clone().complete::<Ping>(7).await.unwrap(), Completed::Yes);
    let elsewhere = world.client.job_handle::<Ping>(job.id().clone());
    assert_eq!(with_timeout(elsewhere.wait()).await.unwrap(), 7);
    assert!(!elsewhere.created());
    assert_eq!(elsewhere.delete().await.unwrap(), Deleted::Yes);
    assert!(job.info().await.unwrap().is_none());
}

#[tokio::test]
async fn a_job_may_have_its_own_backoff() {
    let world = World::new().await;
    let hour = Duration::from_secs(3600);
    let job = world.client.job(Ping { n: 1 }).backoff(Backoff::constant(hour)).enqueue().await.unwrap();
    let fail = |_: Ping| async { Err::<u32, _>(Fail::retry("again")) };
    world.worker().handle(fail).queue("default", 1).drain().await.unwrap();
    let info = job.info().await.unwrap().unwrap();
    assert_eq!((info.state, info.due), (JobState::Scheduled, Some(world.client.now().after(hour))));
    let endless = world.client.job(Ping { n: 1 }).backoff(Backoff::constant(Duration::MAX)).enqueue().await;
    assert!(endless.unwrap_err().to_string().contains("the backoff"));
}
