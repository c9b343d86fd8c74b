//! Chains across shards: whoever dies between two steps, and whatever the server forgets, nobody waits for ever,
//! nothing starts twice, and nothing stays.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use support::mortal::Mortal;
use support::{left_behind, one_server};
use tidemill_core::chain::{Continuation, Dedup, JobLinks};
use tidemill_core::job::JobState;
use tidemill_core::name::Kind;
use tidemill_core::settle::Outcome;
use tidemill_core::store::{
    Claimed, Deleted, Due, EnqueueParams, Enqueued, NewJob, PromoteParams, SettleParams,
};
use tidemill_core::{JobId, Namespace, Queue, QueueName};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::harness::{JobSpec, done};
use tidemill_testkit::conformance::{QueueHarness, until};
use tidemill_testkit::servers::Redis;

/// Long enough to be told of, short enough to wait for its end.
const BRIEF: Duration = Duration::from_millis(300);

fn brief(links: JobLinks) -> NewJob {
    let job = JobSpec { keep: Some(BRIEF), ..JobSpec::default() }.job();
    NewJob { links, generated_id: true, ..job }
}

fn after(chains: &[JobId]) -> JobLinks {
    JobLinks { after: chains.to_vec(), dedup: None }
}

fn queue() -> Queue {
    Queue::at_least_once(QueueName::new("q").unwrap())
}

/// A store of eight shards through a way that may end, and another that survives.
struct Pair {
    mortal: Mortal,
    doomed: QueueHarness,
    heir: QueueHarness,
    namespace: Namespace,
    url: String,
}

impl Pair {
    async fn on(redis: &Redis, name: String) -> Self {
        let (mortal, namespace) = (Mortal::to(redis.port()).await, Namespace::new(&name).unwrap());
        let open = async |url: &str| {
            let options = RedisOptions::parse(url).unwrap().namespace(namespace.clone()).shards(8);
            QueueHarness::new(Arc::new(RedisStore::connect(options).await.unwrap()), queue())
        };
        let (doomed, heir) = (open(&mortal.url()).await, open(&redis.url()).await);
        let heir = heir.with_store(heir.store.clone());
        Self { mortal, doomed, heir, namespace, url: redis.url() }
    }

    /// Two open chains, claimed by the heir.
    async fn two_open(&self) -> [Claimed; 2] {
        let jobs: Vec<_> = (0..2).map(|_| brief(JobLinks::default())).collect();
        self.heir.enqueue_batch(jobs).await.unwrap();
        self.heir.claim(2).await.try_into().unwrap()
    }

    /// Waits until nothing is left that a dead process should have done.
    async fn heal(&self) {
        until("the errands to be done", || async {
            self.heir.promote().await;
            let left = left_behind(vec![self.url.clone()], self.namespace.clone()).await;
            (!left.iter().any(|key| key.contains("errands"))).then_some(())
        })
        .await;
    }

    /// Claims and ends everything there is, over and over, and says what was started.
    async fn drain(&self) -> Vec<JobId> {
        let mut started = Vec::new();
        self.heal().await;
        for claimed in self.heir.claim_with(50, 50, Duration::ZERO).await {
            started.push(claimed.lease.job.clone());
            self.heir.settle(&claimed, done()).await;
        }
        started
    }

    async fn assert_nothing_is_left(&self, about: &str) {
        for scene in [&self.heir, &self.doomed] {
            self.heir.store.leave(&scene.worker, &[queue()]).await.unwrap();
        }
        let mut left = Vec::new();
        for _ in 0..200 {
            left = left_behind(vec![self.url.clone()], self.namespace.clone()).await;
            if left.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{about}: left behind {left:?}");
    }
}

/// Plays a scene again and again, with a death one request later each time, until it comes to its end alive.
async fn die_everywhere<F: Future<Output = bool>>(play: impl Fn(i64) -> F) {
    for first in (0..).step_by(4) {
        let lived = join_all((first..first + 4).map(&play)).await;
        if lived.contains(&true) {
            return;
        }
        assert!(first < 60, "it never comes to its end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_while_a_job_begins_to_wait_leaves_it_waiting_or_nothing() {
    let redis = Redis::start().unwrap();
    die_everywhere(|requests| {
        let redis = &redis;
        async move {
            let pair = Pair::on(redis, format!("w{requests}:")).await;
            let open = pair.two_open().await;
            let job = brief(after(&open.each_ref().map(|claimed| claimed.lease.job.clone())));
            let id = job.id.clone();
            pair.mortal.dies_after(requests);
            let made = pair.doomed.enqueue_batch(vec![job]).await;
            pair.heal().await;
            let is_there = pair.heir.state(&id).await;
            assert!(is_there.is_none() || is_there == Some(JobState::Blocked), "{requests}: {is_there:?}");
            assert!(made.is_err() || is_there.is_some(), "{requests}: an acknowledged job is gone");
            for claimed in &open {
                pair.heir.settle(claimed, done()).await;
            }
            let started = pair.drain().await;
            assert_eq!(started, if is_there.is_some() { vec![id] } else { Vec::new() }, "{requests}");
            pair.assert_nothing_is_left(&format!("after {requests} requests")).await;
            !pair.mortal.is_dead()
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_while_a_chain_closes_leaves_nobody_waiting() {
    let redis = Redis::start().unwrap();
    die_everywhere(|requests| {
        let redis = &redis;
        async move {
            let pair = Pair::on(redis, format!("c{requests}:")).await;
            let open = pair.two_open().await;
            let chains = open.each_ref().map(|claimed| claimed.lease.job.clone());
            let ids = [
                pair.heir.enqueue(brief(after(&chains))).await,
                pair.heir.enqueue(brief(after(&chains))).await,
            ];
            pair.heir.settle(&open[1], done()).await;
            // The lease is fenced by its token, whichever connection it came through.
            let settlement = pair.heir.settlement(&open[0], done());
            pair.mortal.dies_after(requests);
            let settled =
                pair.doomed.store.settle(SettleParams::current(std::slice::from_ref(&settlement))).await;
            if settled.is_err() {
                // Whoever holds the lease tries again; if it took place, this has no effect.
                pair.heir.store.settle(SettleParams::current(&[settlement])).await.unwrap();
            }
            let started: HashSet<_> = pair.drain().await.into_iter().collect();
            assert_eq!(started, HashSet::from(ids), "{requests}");
            assert!(pair.drain().await.is_empty());
            pair.assert_nothing_is_left(&format!("after {requests} requests")).await;
            !pair.mortal.is_dead()
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_while_a_chain_goes_on_to_wait_leaves_it_waiting() {
    let redis = Redis::start().unwrap();
    die_everywhere(|requests| {
        let redis = &redis;
        async move {
            let pair = Pair::on(redis, format!("n{requests}:")).await;
            let [first, open] = pair.two_open().await;
            let closed = brief(JobLinks::default());
            pair.heir.enqueue(closed.clone()).await;
            pair.heir.settle(&pair.heir.claim_one().await, done()).await;
            let chains = [open.lease.job.clone(), closed.id, JobId::generate()];
            let next = Continuation { after: chains.to_vec(), ..continuation() };
            let settlement = pair.heir.settlement(&first, Outcome::Continue(Box::new(next)));
            pair.mortal.dies_after(requests);
            if pair
                .doomed
                .store
                .settle(SettleParams::current(std::slice::from_ref(&settlement)))
                .await
                .is_err()
            {
                pair.heir.store.settle(SettleParams::current(&[settlement])).await.unwrap();
            }
            pair.heal().await;
            let info = pair.heir.get(&first.lease.job).await.unwrap();
            assert_eq!((info.state, info.waits_for), (JobState::Blocked, vec![open.lease.job.clone()]));
            pair.heir.settle(&open, done()).await;
            let claimed = pair.heir.claim_one().await;
            assert_eq!(claimed.lease.job, first.lease.job.at_step(1));
            let told = claimed.body.as_ref().unwrap().blockers().unwrap();
            assert_eq!(told.len(), 3);
            assert_eq!((told[0].state, told[2].state), (JobState::Done, JobState::Cancelled));
            pair.heir.settle(&claimed, done()).await;
            pair.assert_nothing_is_left(&format!("after {requests} requests")).await;
            !pair.mortal.is_dead()
        }
    })
    .await;
}

fn continuation() -> Continuation {
    let payload = serde_json::value::RawValue::from_string("1".to_owned()).unwrap();
    let next = Continuation::untyped(Kind::new("next").unwrap(), QueueName::new("q").unwrap(), &payload);
    Continuation { due: Due::Now, ..next }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_while_starting_a_chain_once_leaves_one_or_none() {
    let redis = Redis::start().unwrap();
    die_everywhere(|requests| {
        let redis = &redis;
        async move {
            let pair = Pair::on(redis, format!("k{requests}:")).await;
            let once = || brief(JobLinks { after: Vec::new(), dedup: Some(Dedup::open("the key")) });
            pair.mortal.dies_after(requests);
            let (mut ids, mut jobs) = (Vec::new(), vec![once(), once()]);
            ids.push(jobs[0].id.clone());
            let first = pair.doomed.enqueue_batch(vec![jobs.remove(0)]).await;
            // Another caller comes at once, before anybody has promoted.
            let second = pair.heir.enqueue_again(jobs.remove(0)).await;
            if first.is_ok() {
                assert_eq!(second, Enqueued::Duplicate(ids[0].clone()), "{requests}");
            }
            let started = pair.drain().await;
            assert_eq!(started.len(), 1, "{requests}: {first:?} {second:?}");
            pair.assert_nothing_is_left(&format!("after {requests} requests")).await;
            !pair.mortal.is_dead()
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_while_a_waiter_is_removed_keeps_nobody_from_deleting() {
    let redis = Redis::start().unwrap();
    die_everywhere(|requests| {
        let redis = &redis;
        async move {
            let pair = Pair::on(redis, format!("d{requests}:")).await;
            let open = pair.two_open().await;
            let chains = open.each_ref().map(|claimed| claimed.lease.job.clone());
            let links = JobLinks { dedup: Some(Dedup::any("the key")), ..after(&chains) };
            let id = pair.heir.enqueue(brief(links)).await;
            pair.mortal.dies_after(requests);
            if pair.doomed.store.delete(&id).await.is_err() {
                pair.heir.store.delete(&id).await.unwrap();
            }
            for chain in &chains {
                assert_eq!(pair.heir.store.delete(chain).await.unwrap(), Deleted::Yes, "{requests}");
            }
            pair.heal().await;
            pair.assert_nothing_is_left(&format!("after {requests} requests")).await;
            !pair.mortal.is_dead()
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_forgets_everything_or_its_scripts_keeps_nobody_from_going_on() {
    let redis = Redis::start().unwrap();
    let pair = Pair::on(&redis, "f:".to_owned()).await;
    let open = pair.two_open().await;
    let chains = open.each_ref().map(|claimed| claimed.lease.job.clone());
    let id = pair.heir.enqueue(brief(after(&chains))).await;
    redis.command(&["SCRIPT", "FLUSH"]).unwrap();
    pair.heir.settle(&open[0], done()).await;
    redis.command(&["SCRIPT", "FLUSH"]).unwrap();
    pair.heir.settle(&open[1], done()).await;
    assert_eq!(pair.drain().await, [id]);

    let open = pair.two_open().await;
    let chains = open.each_ref().map(|claimed| claimed.lease.job.clone());
    let links = JobLinks { dedup: Some(Dedup::open("k")), ..after(&chains) };
    let lost = pair.heir.enqueue(brief(links.clone())).await;
    redis.command(&["FLUSHALL"]).unwrap();
    assert_eq!(pair.heir.state(&lost).await, None);
    assert_eq!(pair.heir.store.delete(&chains[0]).await.unwrap(), Deleted::NotFound);
    let refused = pair.heir.enqueue_batch(vec![brief(links)]).await;
    assert!(matches!(refused, Err(tidemill_core::Error::NotFound(_))), "{refused:?}");
    pair.heir.enqueue(brief(JobLinks { after: Vec::new(), dedup: Some(Dedup::open("k")) })).await;
    assert_eq!(pair.drain().await.len(), 1);
    pair.assert_nothing_is_left("after FLUSHALL").await;
}

#[tokio::test]
async fn on_a_full_server_chains_go_on_close_and_release() {
    let redis = Redis::start().unwrap();
    let pair = Pair::on(&redis, "o:".to_owned()).await;
    let [first, open] = pair.two_open().await;
    let waiter = pair.heir.enqueue(brief(after(std::slice::from_ref(&first.lease.job)))).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    for links in [
        after(std::slice::from_ref(&open.lease.job)),
        JobLinks { dedup: Some(Dedup::open("k")), ..JobLinks::default() },
    ] {
        let refused = pair.heir.enqueue_batch(vec![brief(links)]).await;
        assert!(matches!(refused, Err(tidemill_core::Error::Full(_))), "{refused:?}");
    }
    let next = Continuation { after: vec![open.lease.job.clone()], ..continuation() };
    pair.heir.settle(&first, Outcome::Continue(Box::new(next))).await;
    pair.heir.settle(&open, done()).await;
    assert_eq!(pair.drain().await, [first.lease.job.at_step(1)]);
    assert_eq!(pair.drain().await, [waiter]);
    pair.assert_nothing_is_left("on a full server").await;
}

#[tokio::test]
async fn hundreds_wait_for_one_chain_and_one_job_for_a_thousand() {
    let redis = Redis::start().unwrap();
    let pair = Pair::on(&redis, "m:".to_owned()).await;
    let kept = JobSpec { keep: Some(Duration::from_secs(60)), ..JobSpec::default() };
    let root = pair.heir.enqueue(kept.job()).await;
    let held = pair.heir.claim_one().await;
    let fan: Vec<_> =
        (0..1000).map(|_| NewJob { links: after(std::slice::from_ref(&root)), ..kept.job() }).collect();
    let ids: Vec<_> = fan.iter().map(|job| job.id.clone()).collect();
    pair.heir.enqueue_batch(fan).await.unwrap();
    let join = pair.heir.enqueue(NewJob { links: after(&ids), ..kept.job() }).await;
    assert_eq!(pair.heir.get(&join).await.unwrap().waits_for.len(), 100);
    pair.heir.settle(&held, done()).await;
    let claimed = pair.heir.claim(1000).await;
    let settlements: Vec<_> = claimed.iter().map(|claimed| pair.heir.settlement(claimed, done())).collect();
    pair.heir.store.settle(SettleParams::current(&settlements)).await.unwrap();
    let last = pair.heir.claim_one().await;
    assert_eq!(last.lease.job, join);
    let told = last.body.as_ref().unwrap().blockers().unwrap();
    assert!(told.iter().map(|told| &told.chain).eq(&ids));
}

#[tokio::test]
async fn what_is_left_of_a_drained_store_is_its_queues() {
    let redis = Redis::start().unwrap();
    let options = RedisOptions::parse(&redis.url()).unwrap();
    let scene = QueueHarness::new(Arc::new(RedisStore::connect(options).await.unwrap()), queue());
    let mut last = Vec::new();
    for round in 0..30 {
        let dedup = (round % 3 == 0).then(|| Dedup::any(format!("key {round}")));
        last = vec![scene.enqueue(brief(JobLinks { after: last, dedup })).await];
    }
    for _ in 0..30 {
        scene.settle(&scene.claim_one().await, done()).await;
    }
    scene.store.leave(&scene.worker, &[queue()]).await.unwrap();
    until("what expires to be gone", || async {
        // Receipts go by themselves, but not while anybody wants to wait for it.
        let script = "local left = {} for _, key in ipairs(redis.call('KEYS', '*')) do \
            if not string.find(key, 'receipt:', 1, true) then table.insert(left, key) \
            elseif redis.call('PTTL', key) < 0 then table.insert(left, 'immortal ' .. key) end end \
            table.sort(left) return table.concat(left, ' ')";
        let left = redis.command(&["EVAL", script, "0"]).unwrap();
        (left == "tidemill:queues tidemill:stream:q").then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_idle_store_costs_one_command_a_look() {
    let subject = one_server().await;
    let scene = subject.harness();
    scene.promote().await;
    let before = scene.store.commands();
    for _ in 0..10 {
        let queues = [scene.queue.clone()];
        scene.store.promote(PromoteParams { queues: &queues, limit: 10 }).await.unwrap();
    }
    assert_eq!(scene.store.commands() - before, 10);
}

mod races {
    use super::support::{cluster, one_server};
    use super::*;
    use tidemill_testkit::conformance::StoreUnderTest;

    #[tokio::test(flavor = "multi_thread")]
    async fn two_hundred_jobs_whose_two_chains_close_together_all_start_once_on_one_server() {
        two_hundred_pairs(one_server().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn two_hundred_jobs_whose_two_chains_close_together_all_start_once_on_a_cluster() {
        two_hundred_pairs(cluster().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn two_hundred_keys_of_four_callers_are_two_hundred_chains_on_one_server() {
        two_hundred_keys(one_server().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn two_hundred_keys_of_four_callers_are_two_hundred_chains_on_a_cluster() {
        two_hundred_keys(cluster().await).await;
    }

    async fn two_hundred_pairs(subject: StoreUnderTest) {
        let scene = subject.harness();
        let other = scene.with_store(subject.other_connection().await);
        let waiting = subject.harness_on("waiting", tidemill_core::Guarantee::AtLeastOnce);
        let kept = JobSpec { keep: Some(Duration::from_secs(60)), ..JobSpec::default() };
        scene.enqueue_batch((0..400).map(|_| kept.job()).collect()).await.unwrap();
        let claimed = scene.claim(400).await;
        let chains: Vec<_> = claimed.iter().map(|claimed| claimed.lease.job.clone()).collect();
        let making = chains.chunks(2).map(|pair| {
            let (waiting, links) = (waiting.clone(), after(pair));
            tokio::spawn(async move { waiting.enqueue(NewJob { links, ..job() }).await })
        });
        join_all(making.collect::<Vec<_>>()).await.into_iter().for_each(|made| drop(made.unwrap()));
        let closing = claimed.into_iter().enumerate().map(|(index, claimed)| {
            let scene = [&scene, &other][index % 2].clone();
            tokio::spawn(async move { scene.settle(&claimed, done()).await })
        });
        join_all(closing.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
        let started: HashSet<_> = waiting.claim(200).await.into_iter().map(|job| job.lease.job).collect();
        assert_eq!(started.len(), 200);
        waiting.claim_nothing().await;
        assert_eq!(waiting.counts().await.blocked, 0);
    }

    fn job() -> NewJob {
        JobSpec { keep: Some(Duration::from_secs(60)), ..JobSpec::default() }.job()
    }

    async fn two_hundred_keys(subject: StoreUnderTest) {
        let scene = subject.harness();
        let other = scene.with_store(subject.other_connection().await);
        let starting = (0..800).map(|index| {
            let scene = [&scene, &other][index % 2].clone();
            let links =
                JobLinks { after: Vec::new(), dedup: Some(Dedup::open(format!("key {}", index / 4))) };
            let job = NewJob { links, generated_id: true, ..job() };
            tokio::spawn(async move {
                let jobs = [job];
                let enqueue = EnqueueParams { queue: &scene.queue, jobs: &jobs };
                scene.store.enqueue(enqueue).await.unwrap().remove(0)
            })
        });
        let answers = join_all(starting.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap);
        assert_eq!(answers.filter(|answer| *answer == Enqueued::Created).count(), 200);
        assert_eq!(scene.claim(200).await.len(), 200);
        scene.claim_nothing().await;
    }
}
