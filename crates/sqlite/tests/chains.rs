//! Edge cases of chains: missing chains, deleted chains, and jobs that wait for themselves.

mod database_dir;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use database_dir::{DatabaseDir, scene};
use futures_util::future::join_all;
use tidemill_core::chain::{Dedup, JobLinks};
use tidemill_core::job::JobState;
use tidemill_core::store::{EnqueueParams, Enqueued, Jobs, NewJob, Queues};
use tidemill_core::{Error, Guarantee, JobId};
use tidemill_testkit::conformance::harness::{
    JobSpec, chain, chain_after, chain_once, done, envelope, output,
};
use tidemill_testkit::conformance::{LONG, SHORT, StoreUnderTest, until};

/// The number of concurrent jobs at which other systems were shown to fail.
const JOBS: usize = 200;

#[tokio::test]
async fn a_repeated_enqueue_is_one_job_though_what_it_waited_for_is_gone() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    let blocker = scene.enqueue(chain()).await;
    let links = JobLinks { after: vec![blocker.clone()], dedup: Some(Dedup::open("k")) };
    let job = NewJob { generated_id: true, links, ..chain_after(&[]) };
    scene.enqueue(job.clone()).await;
    scene.settle(&scene.claim_one().await, done()).await;
    scene.delete(&blocker).await;
    for _ in 0..2 {
        let again = [NewJob { generated_id: false, ..job.clone() }];
        let enqueue = EnqueueParams { queue: &scene.queue, jobs: &again };
        assert_eq!(store.enqueue(enqueue).await.unwrap(), [Enqueued::Exists]);
    }
    scene.assert_counts([1, 0, 0, 0]).await;
}

#[tokio::test]
async fn an_at_most_once_job_that_was_lost_holds_nobody_up() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let subject = StoreUnderTest::new(std::sync::Arc::new(store.clone()), ());
    let once = subject.harness_on("once", Guarantee::AtMostOnce).with_lease(SHORT);
    let kept = JobSpec { keep: Some(LONG), ..JobSpec::default() };
    let lost = once.enqueue(kept.job()).await;
    let id = scene(&store).enqueue(chain_after(std::slice::from_ref(&lost))).await;
    once.claim_one().await;
    let claimed = until("the job that waits to start", || async {
        store.prune(std::slice::from_ref(&once.queue)).await.unwrap();
        scene(&store).try_claim(1).await.pop()
    })
    .await;
    assert_eq!(claimed.lease.job, id);
    assert_eq!(envelope(&claimed).blockers().unwrap()[0].state, JobState::Cancelled);
}

#[tokio::test]
async fn a_batch_that_names_a_missing_chain_adds_nothing() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    let first = chain();
    let second = chain_after(std::slice::from_ref(&first.id));
    let third = chain_after(&[JobId::generate()]);
    let refused = scene.enqueue_batch(vec![first.clone(), second.clone(), third]).await;
    assert!(matches!(refused, Err(Error::NotFound(_))), "{refused:?}");
    assert_eq!(scene.state(&first.id).await, None);
    // A chain that comes earlier in the batch exists.
    scene.enqueue_batch(vec![chain(), first.clone(), second.clone(), chain()]).await.unwrap();
    assert_eq!(scene.state(&second.id).await, Some(JobState::Blocked));
    scene.assert_counts([3, 0, 0, 0]).await;
}

#[tokio::test]
async fn a_purge_takes_those_that_wait_for_one_another() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let (here, there) = (scene(&store), database_dir::scene_on(&store, "there"));
    let first = here.enqueue(chain()).await;
    let second = here.enqueue(chain_after(std::slice::from_ref(&first))).await;
    let outside = there.enqueue(chain_after(std::slice::from_ref(&second))).await;
    assert_eq!(store.purge(&here.queue).await.unwrap(), 2);
    here.assert_counts([0; 4]).await;
    assert_eq!(there.claim_one().await.lease.job, outside);
}

#[tokio::test]
async fn an_open_chain_counts_though_a_later_one_has_closed() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    let (_, open) = scene.start_once(Dedup::open("k")).await;
    let held = scene.claim_one().await;
    until("the window to close", || async {
        scene.start_once(Dedup::open("k").within(Duration::from_millis(20))).await.0.then_some(())
    })
    .await;
    scene.settle(&scene.claim_one().await, output("2")).await;
    assert_eq!(scene.start_once(Dedup::open("k")).await, (false, open));
    scene.settle(&held, done()).await;
    assert!(scene.enqueue_again(chain_once(Dedup::open("k"))).await == Enqueued::Created);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_200_jobs_that_wait_for_two_chains_closing_at_the_same_moment_each_starts_once() {
    let dir = DatabaseDir::new();
    let stores = [dir.open().await, dir.open().await];
    let (blocking, waiting) = (database_dir::scene_on(&stores[0], "blocking"), scene(&stores[0]));
    blocking.enqueue_batch((0..2 * JOBS).map(|_| chain()).collect()).await.unwrap();
    let blockers = blocking.claim(2 * JOBS).await;
    let pairs = blockers.chunks(2).map(|pair| [pair[0].lease.job.clone(), pair[1].lease.job.clone()]);
    let jobs: Vec<_> = pairs.map(|pair| chain_after(&pair)).collect();
    let expected: HashSet<_> = jobs.iter().map(|job| job.id.clone()).collect();
    waiting.enqueue_batch(jobs).await.unwrap();
    waiting.claim_nothing().await;
    let closing = blockers.into_iter().enumerate().map(|(index, claimed)| {
        // The two chains of a pair are closed through two stores.
        let scene = blocking.with_store(Arc::new(stores[index % 2].clone()));
        tokio::spawn(async move { scene.settle(&claimed, output("1")).await })
    });
    for closed in join_all(closing.collect::<Vec<_>>()).await {
        closed.unwrap();
    }
    let started: Vec<_> = waiting.claim(JOBS).await.into_iter().map(|claimed| claimed.lease.job).collect();
    assert_eq!(started.into_iter().collect::<HashSet<_>>(), expected);
    waiting.claim_nothing().await;
    waiting.assert_counts([0, 0, JOBS as u64, 0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_200_keys_that_four_callers_use_at_once_there_are_200_chains() {
    let dir = DatabaseDir::new();
    let stores = [dir.open().await, dir.open().await];
    let starting = (0..4 * JOBS).map(|index| {
        let scene = scene(&stores[index % 2]);
        let key = format!("key {}", index / 4);
        tokio::spawn(async move { (key.clone(), scene.start_once(Dedup::open(&key)).await) })
    });
    let (mut chains, mut created) = (HashMap::new(), 0);
    for started in join_all(starting.collect::<Vec<_>>()).await {
        let (key, (is_new, id)) = started.unwrap();
        created += usize::from(is_new);
        // All four get the same duplicate.
        assert_eq!(*chains.entry(key).or_insert_with(|| id.clone()), id);
    }
    assert_eq!((created, chains.len()), (JOBS, JOBS));
    scene(&stores[0]).assert_counts([JOBS as u64, 0, 0, 0]).await;
}
