//! Claims: each job goes to one caller, oldest first, and claims wait without polling and without
//! losing jobs.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::name::{Guarantee, JobId};
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, redrive};
use tidemill_core::store::{ClaimParams, Claimed, Enqueued};

use super::harness::{SHORT, dead, done, job, retry, until};
use super::{QueueHarness, StoreUnderTest};

/// Much longer than a case waits: a claim that ends in time was woken or polled, and did not time
/// out.
const WAIT: Duration = Duration::from_secs(60);

pub async fn the_oldest_job_comes_first(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let mut ids = Vec::new();
        for count in [1, 5, 1, 3] {
            ids.extend(harness.enqueue_many(count).await);
        }
        let given = [harness.claim(4).await, harness.claim(6).await].concat();
        for (shard, given) in by_shard(given) {
            let expected: Vec<_> = ids.iter().filter(|id| given.contains(id)).cloned().collect();
            assert_eq!(given, expected, "in shard {shard}");
        }
    }
}

/// There is an order within a shard only.
fn by_shard(given: Vec<Claimed>) -> BTreeMap<u16, Vec<JobId>> {
    let mut shards: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for claimed in given {
        shards.entry(claimed.lease.shard).or_default().push(claimed.lease.job);
    }
    shards
}

pub async fn a_claimed_job_is_not_given_out_again(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue(job()).await;
        harness.claim(1).await;
        harness.claim_nothing().await;
        harness.with_store(subject.other_connection().await).claim_nothing().await;
    }
}

pub async fn each_job_goes_to_one_of_many_claimants(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let ids: HashSet<_> = harness.enqueue_many(100).await.into_iter().collect();
        let other = harness.with_store(subject.other_connection().await);
        let claimants = (0..8).map(|index| take_all(if index % 2 == 0 { harness.clone() } else { other.clone() }));
        let tasks = claimants.map(tokio::spawn).collect::<Vec<_>>();
        let given: Vec<_> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(given.len(), 100, "jobs given out");
        assert_eq!(given.into_iter().collect::<HashSet<_>>(), ids);
    }
}

async fn take_all(harness: QueueHarness) -> Vec<JobId> {
    let mut taken = Vec::new();
    loop {
        let claimed = harness.try_claim(7).await;
        if claimed.is_empty() {
            return taken;
        }
        taken.extend(claimed.into_iter().map(|claimed| claimed.lease.job));
    }
}

pub async fn no_more_are_given_than_asked_for(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue_many(20).await;
        let given = harness.try_claim(3).await;
        assert_eq!(given.iter().filter(|claimed| claimed.started).count(), 3);
        // One more job per further shard may be held.
        assert!(given.len() == 3 || subject.is_sharded(), "{} jobs", given.len());
    }
}

pub async fn fewer_are_given_when_there_are_fewer(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue_many(2).await;
        assert_eq!(harness.claim_with(50, 50, Duration::from_secs(5)).await.len(), 2);
    }
}

pub async fn the_first_are_started_and_the_rest_are_held(subject: StoreUnderTest) {
    let harness = subject.harness();
    harness.enqueue_many(5).await;
    let mut given = harness.claim_with(5, 2, Duration::ZERO).await;
    while given.len() < 5 {
        given.extend(harness.claim_with(5 - given.len(), 0, Duration::ZERO).await);
    }
    assert!(given[..2].iter().all(|claimed| claimed.started));
    assert!(given[2..].iter().all(|claimed| !claimed.started));
}

pub async fn an_empty_queue_gives_nothing(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.claim_nothing().await;
        assert!(harness.claim_with(5, 5, Duration::from_millis(50)).await.is_empty());
    }
}

pub async fn a_waiting_claim_is_woken_by_an_enqueue_elsewhere(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let elsewhere = harness.with_store(subject.other_connection().await);
        let waiting = tokio::spawn({
            let harness = harness.clone();
            async move { harness.claim_with(5, 5, WAIT).await }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let id = elsewhere.enqueue(job()).await;
        let given = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it is woken").unwrap();
        assert_eq!(given.len(), 1);
        assert_eq!(given[0].lease.job, id);
    }
}

pub async fn an_interrupted_claim_ends_early(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let interrupt = Box::pin(tokio::time::sleep(Duration::from_millis(50)));
        let claim = ClaimParams { wait: WAIT, interrupt, ..ClaimParams::now(&harness.queue, &harness.worker, harness.lease, 5) };
        let given = tokio::time::timeout(Duration::from_secs(10), harness.store.claim(claim)).await;
        assert!(given.expect("it ends early").unwrap().is_empty());
        harness.enqueue(job()).await;
        harness.claim(1).await;
    }
}

pub async fn an_interrupt_that_races_with_an_enqueue_loses_nothing(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        for round in 0..20 {
            let pause = || tokio::time::sleep(Duration::from_micros(fastrand::u64(0..3000)));
            let claim = ClaimParams {
                wait: WAIT,
                interrupt: Box::pin(pause()),
                ..ClaimParams::now(&harness.queue, &harness.worker, harness.lease, 1)
            };
            let enqueue = async {
                pause().await;
                harness.enqueue(job()).await
            };
            let (given, id) = tokio::join!(harness.store.claim(claim), enqueue);
            let given = given.unwrap().pop();
            let given = if let Some(given) = given { given } else { harness.claim_one().await };
            assert_eq!(given.lease.job, id, "in round {round}");
            harness.settle(&given, done()).await;
        }
    }
}

pub async fn queues_do_not_mix(subject: StoreUnderTest) {
    let names = ["mail", "mail.bulk", "mai", "mail/bulk"];
    let both = [Guarantee::AtLeastOnce, Guarantee::AtMostOnce];
    let harnesses: Vec<_> =
        names.iter().flat_map(|name| both.map(|delivery| subject.harness_on(name, delivery))).collect();
    let mut ids = Vec::new();
    for harness in &harnesses {
        ids.push(harness.enqueue(job()).await);
    }
    for (harness, id) in harnesses.iter().zip(ids) {
        assert_eq!(harness.claim_one().await.lease.job, id);
        harness.claim_nothing().await;
    }
}

pub async fn tokens_only_grow(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue(job()).await;
        let mut last = None;
        for round in 0..5 {
            let worker = if round % 2 == 0 { harness.clone() } else { harness.with_store(subject.other_connection().await) };
            let claimed = worker.claim_one().await;
            assert!(last < Some(claimed.lease.token), "{last:?} then {:?}", claimed.lease.token);
            last = Some(claimed.lease.token);
            worker.settle(&claimed, retry(Duration::ZERO)).await;
            if round == 3 {
                harness.settle(&harness.claim_one().await, dead("bad")).await;
                redrive(&*harness.store, &harness.queue, &DeadLetterFilter::default()).await.unwrap();
            }
        }
    }
}

pub async fn an_at_most_once_job_is_never_given_out_twice(subject: StoreUnderTest) {
    let harness = subject.at_most_once_harness().with_lease(SHORT);
    let id = harness.enqueue(job()).await;
    harness.claim(1).await;
    until("the job to be forgotten", || async {
        harness.rescue().await;
        harness.promote().await;
        harness.store.prune(std::slice::from_ref(&harness.queue)).await.unwrap();
        harness.claim_nothing().await;
        let counts = harness.counts().await;
        (harness.get(&id).await.is_none() && counts.running == 0).then_some(())
    })
    .await;
    harness.assert_counts([0, 0, 0, 0]).await;
}

pub async fn an_at_most_once_id_is_free_again_after_its_lease(subject: StoreUnderTest) {
    let harness = subject.at_most_once_harness().with_lease(SHORT);
    let job = job();
    harness.enqueue(job.clone()).await;
    harness.claim(1).await;
    until("the id to be free", || async {
        harness.rescue().await;
        harness.store.prune(std::slice::from_ref(&harness.queue)).await.unwrap();
        let again = job.clone();
        (harness.enqueue_again(again).await == Enqueued::Created).then_some(())
    })
    .await;
    assert_eq!(harness.claim_one().await.lease.job, job.id);
}
