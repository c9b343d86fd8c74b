//! PostgreSQL's own risks with chains: concurrent connections, isolation levels, and envelopes that
//! are assembled in SQL.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tidemill_core::chain::{Blocker, Dedup, JobLinks, with_blockers};
use tidemill_core::job::JobState;
use tidemill_core::settle::{Change, NextJob, Settlement};
use tidemill_core::store::{
    Claimed, Due, EnqueueParams, Enqueued, Inspect, JobRecord, Jobs, NewJob, Queues, SettleParams, Verdict,
};
use tidemill_core::{Error, JobId, Timestamp};
use tidemill_postgres::PostgresStore;
use tidemill_testkit::conformance::QueueHarness;
use tidemill_testkit::servers::shared_postgres;
use tokio::task::JoinHandle;
use world::{connect, query, queue, session};

/// The number of concurrent jobs at which Queuert was shown to fail.
const JOBS: usize = 200;

/// A job that keeps its result.
fn chain(id: JobId, links: JobLinks) -> NewJob {
    let envelope = format!(
        r#"{{"job_id":{},"task_type":"t","payload":"\u0000","keep_result_ms":60000}}  "#,
        serde_json(&id)
    );
    NewJob { id, envelope: envelope.into(), due: Due::Now, tracked: true, generated_id: false, links }
}

fn serde_json(id: &JobId) -> String {
    format!("\"{}\"", id.as_str().replace('\\', "\\\\").replace('"', "\\\""))
}

fn after(chains: &[JobId]) -> JobLinks {
    JobLinks { after: chains.to_vec(), dedup: None }
}

fn closed(claimed: Claimed, output: &'static str) -> Settlement {
    let record = JobRecord {
        job: claimed.lease.job.chain(),
        state: JobState::Done,
        output: Bytes::from_static(output.as_bytes()),
        error: None,
        finished_at: Timestamp(0),
        keep: Duration::from_secs(60),
    };
    Settlement { lease: claimed.lease, change: Change::Finish(Some(record)) }
}

async fn enqueue(store: &PostgresStore, name: &str, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
    store.enqueue(EnqueueParams { queue: &queue(name), jobs }).await
}

/// Four stores on one database, with four connections each.
async fn fleet() -> (String, Vec<Arc<PostgresStore>>) {
    let url = shared_postgres().database().unwrap();
    let stores = join_all((0..4).map(|_| connect(&url))).await;
    (url, stores.into_iter().map(Arc::new).collect())
}

/// Starts chains and claims them.
async fn claimed_chains(store: &Arc<PostgresStore>, count: usize) -> Vec<Claimed> {
    let jobs: Vec<_> = (0..count).map(|_| chain(JobId::generate(), JobLinks::default())).collect();
    enqueue(store, "blockers", &jobs).await.unwrap();
    let scene = QueueHarness::new(store.clone(), queue("blockers"));
    let claimed = scene.claim(count).await;
    assert_eq!(claimed.len(), count);
    claimed
}

async fn assert_each_starts_once(store: &Arc<PostgresStore>, name: &str, ids: HashSet<JobId>) {
    let scene = QueueHarness::new(store.clone(), queue(name));
    let started: Vec<JobId> =
        scene.try_claim(2 * ids.len()).await.into_iter().map(|claimed| claimed.lease.job).collect();
    assert_eq!(started.len(), ids.len());
    assert_eq!(started.into_iter().collect::<HashSet<_>>(), ids);
}

/// Completes when a statement of this task waits for a lock, or the task has ended without.
async fn until_held_up<T>(url: &str, task: &JoinHandle<T>) {
    let held_up = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while !task.is_finished() && query(url, held_up).await == [["0"]] {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_200_jobs_that_wait_for_two_chains_closing_at_the_same_moment_each_starts_once() {
    let (_, stores) = fleet().await;
    let blockers = claimed_chains(&stores[0], 2 * JOBS).await;
    let jobs: Vec<_> = blockers
        .chunks(2)
        .map(|pair| chain(JobId::generate(), after(&[pair[0].lease.job.clone(), pair[1].lease.job.clone()])))
        .collect();
    enqueue(&stores[0], "waiting", &jobs).await.unwrap();
    let closing = blockers.into_iter().enumerate().map(|(at, claimed)| {
        let store = stores[at % stores.len()].clone();
        tokio::spawn(async move { store.settle(SettleParams::current(&[closed(claimed, "1")])).await })
    });
    for verdicts in join_all(closing.collect::<Vec<_>>()).await {
        assert_eq!(verdicts.unwrap().unwrap(), [Verdict::Accepted]);
    }
    assert_each_starts_once(&stores[0], "waiting", jobs.into_iter().map(|job| job.id).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_200_jobs_that_begin_to_wait_while_their_chains_close_each_starts_once() {
    let (_, stores) = fleet().await;
    let blockers = claimed_chains(&stores[0], JOBS).await;
    let mut ids = HashSet::new();
    let mut tasks = Vec::new();
    for (at, pair) in blockers.chunks(2).enumerate() {
        let chains = [pair[0].lease.job.clone(), pair[1].lease.job.clone()];
        // Two jobs wait for both chains, in either order, and both chains close in one batch.
        for waits_for in [chains.clone(), [chains[1].clone(), chains[0].clone()]] {
            let (store, job) = (stores[at % 4].clone(), chain(JobId::generate(), after(&waits_for)));
            ids.insert(job.id.clone());
            tasks.push(tokio::spawn(async move {
                assert_eq!(enqueue(&store, "waiting", &[job]).await.unwrap(), [Enqueued::Created]);
            }));
        }
        let store = stores[(at + 1) % 4].clone();
        let batch: Vec<_> = pair.iter().cloned().map(|claimed| closed(claimed, "1")).collect();
        tasks.push(tokio::spawn(async move {
            assert_eq!(store.settle(SettleParams::current(&batch)).await.unwrap(), [Verdict::Accepted; 2]);
        }));
    }
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    assert_each_starts_once(&stores[0], "waiting", ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_200_keys_with_four_callers_each_200_chains_come() {
    let (url, stores) = fleet().await;
    let calls = (0..4 * JOBS).map(|at| {
        let (store, key) = (stores[at % 4].clone(), format!("key {}", at / 4));
        let job = chain(JobId::generate(), JobLinks { after: Vec::new(), dedup: Some(Dedup::open(key)) });
        tokio::spawn(async move {
            let made = enqueue(&store, "jobs", std::slice::from_ref(&job)).await.unwrap();
            match &made[0] {
                Enqueued::Created => (true, job.id),
                Enqueued::Duplicate(other) => (false, other.clone()),
                Enqueued::Exists => panic!("the id is new"),
            }
        })
    });
    let answers: Vec<_> = join_all(calls.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();
    for callers in answers.chunks(4) {
        assert_eq!(callers.iter().filter(|(created, _)| *created).count(), 1, "{callers:?}");
        assert!(callers.iter().all(|(_, id)| *id == callers[0].1), "{callers:?}");
    }
    assert_eq!(query(&url, "SELECT count(*) FROM tidemill.jobs").await, [[JOBS.to_string()]]);
    assert_eq!(query(&url, "SELECT count(*) FROM tidemill.keys").await, [[JOBS.to_string()]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn chains_that_are_removed_in_every_way_while_others_begin_to_wait_lose_nobody() {
    let (url, stores) = fleet().await;
    let blockers: Vec<_> = (0..JOBS).map(|_| chain(JobId::generate(), JobLinks::default())).collect();
    enqueue(&stores[0], "blockers", &blockers).await.unwrap();
    let mut tasks = Vec::new();
    for (at, blocker) in blockers.iter().enumerate() {
        let (store, chain_id) = (stores[at % 4].clone(), blocker.id.clone());
        tasks.push(tokio::spawn(async move {
            match at % 3 {
                0 => drop(store.cancel(&chain_id).await.unwrap()),
                1 => drop(store.delete(&chain_id).await.unwrap()),
                _ => {}
            }
        }));
        let (store, job) = (
            stores[(at + 1) % 4].clone(),
            chain(JobId::generate(), after(std::slice::from_ref(&blocker.id))),
        );
        tasks.push(tokio::spawn(async move {
            let made = enqueue(&store, "waiting", &[job]).await;
            assert!(matches!(made, Ok(_) | Err(Error::NotFound(_))), "{made:?}");
        }));
    }
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    stores[0].purge(&queue("blockers")).await.unwrap();
    let stuck =
        "SELECT count(*) FROM tidemill.jobs WHERE state = 1 UNION ALL SELECT count(*) FROM tidemill.blocks";
    assert_eq!(query(&url, stuck).await, [["0"], ["0"]]);
}

#[tokio::test]
async fn what_a_job_is_told_is_what_the_contract_says_to_the_letter() {
    let (_, stores) = fleet().await;
    let store = &stores[0];
    let odd = JobId::new(r#"a"b\c"#).unwrap();
    enqueue(store, "blockers", &[chain(odd.clone(), JobLinks::default())]).await.unwrap();
    let scene = QueueHarness::new(store.clone(), queue("blockers"));
    let waiting = chain(JobId::generate(), after(std::slice::from_ref(&odd)));
    enqueue(store, "waiting", std::slice::from_ref(&waiting)).await.unwrap();
    let settlement = closed(scene.claim_one().await, r#"{"a": [1]}"#);
    store.settle(SettleParams::current(std::slice::from_ref(&settlement))).await.unwrap();
    let Change::Finish(Some(record)) = &settlement.change else { panic!() };
    let told = Blocker::notice(record);
    let expected = with_blockers(&waiting.envelope, [&*told]);
    let info = store.get_job(&waiting.id).await.unwrap().unwrap();
    assert_eq!(info.data, expected);
    let removed = chain(JobId::generate(), JobLinks::default());
    let late = chain(JobId::generate(), after(&[odd, removed.id.clone()]));
    enqueue(store, "blockers", std::slice::from_ref(&removed)).await.unwrap();
    enqueue(store, "waiting", std::slice::from_ref(&late)).await.unwrap();
    store.cancel(&removed.id).await.unwrap();
    let gone = Blocker::removed_notice(&removed.id);
    let expected = with_blockers(&late.envelope, [&*told, &*gone]);
    assert_eq!(store.get_job(&late.id).await.unwrap().unwrap().data, expected);
}

#[tokio::test]
async fn a_batch_may_hold_a_chain_and_after_it_those_that_wait_for_it() {
    let (_, stores) = fleet().await;
    let first = chain(JobId::generate(), JobLinks::default());
    let second = chain(JobId::generate(), after(std::slice::from_ref(&first.id)));
    let made = enqueue(&stores[0], "jobs", &[second.clone(), first.clone()]).await;
    assert!(matches!(made, Err(Error::NotFound(_))), "{made:?}");
    assert!(stores[0].get_job(&first.id).await.unwrap().is_none());
    let made = enqueue(&stores[0], "jobs", &[first, second.clone()]).await.unwrap();
    assert_eq!(made, [Enqueued::Created, Enqueued::Created]);
    let info = stores[0].get_job(&second.id).await.unwrap().unwrap();
    assert_eq!(info.state, JobState::Blocked);
    let itself = chain(JobId::new("itself").unwrap(), after(&[JobId::new("itself").unwrap()]));
    assert!(matches!(enqueue(&stores[0], "jobs", &[itself]).await, Err(Error::NotFound(_))));
}

/// Above READ COMMITTED a transaction has an old snapshot: a job that began to wait since is
/// unblocked after its commit.
#[tokio::test]
async fn a_chain_that_is_closed_by_a_transaction_which_cannot_see_who_waits_releases_them_all_the_same() {
    let (url, stores) = fleet().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let blocker = chain(JobId::generate(), JobLinks::default());
        enqueue(&stores[0], "blockers", std::slice::from_ref(&blocker)).await.unwrap();
        let user = session(&url).await;
        user.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1 FROM tidemill.jobs"))
            .await
            .unwrap();
        let waiting = chain(JobId::generate(), after(std::slice::from_ref(&blocker.id)));
        enqueue(&stores[1], "waiting", std::slice::from_ref(&waiting)).await.unwrap();
        let completed = user
            .query_one(
                "SELECT outcome FROM tidemill.complete_job($1, 3::smallint, '7', NULL, 0, 60000)",
                &[&blocker.id.as_str()],
            )
            .await
            .unwrap();
        assert_eq!(completed.get::<_, &str>(0), "seized");
        user.batch_execute("COMMIT").await.unwrap();
        let scene = QueueHarness::new(stores[2].clone(), queue("waiting"));
        scene.promote().await;
        let claimed = scene.claim_one().await;
        assert_eq!(claimed.lease.job, waiting.id);
    }
    assert_eq!(query(&url, "SELECT count(*) FROM tidemill.owed").await, [["0"]]);
}

#[tokio::test]
async fn a_transaction_that_cannot_see_that_its_chain_has_closed_is_told_to_try_again() {
    let (url, stores) = fleet().await;
    let blocker = claimed_chains(&stores[0], 1).await.remove(0);
    let chain_id = blocker.lease.job.clone();
    let user = session(&url).await;
    user.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM tidemill.jobs").await.unwrap();
    stores[0].settle(SettleParams::current(&[closed(blocker, "1")])).await.unwrap();
    let call = "SELECT tidemill.enqueue('waiting', 'kind', after_chains => ARRAY[$1])";
    let error = user.query(call, &[&chain_id.as_str()]).await.unwrap_err();
    assert_eq!(error.code(), Some(&tokio_postgres::error::SqlState::T_R_SERIALIZATION_FAILURE), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_does_not_close_past_a_transaction_that_begins_to_wait_for_it() {
    let (url, stores) = fleet().await;
    let blocker = claimed_chains(&stores[0], 1).await.remove(0);
    let user = session(&url).await;
    user.batch_execute("BEGIN").await.unwrap();
    let call = "SELECT tidemill.enqueue('waiting', 'kind', after_chains => ARRAY[$1])";
    let job: String = user.query_one(call, &[&blocker.lease.job.as_str()]).await.unwrap().get(0);
    let store = stores[0].clone();
    let closing =
        tokio::spawn(
            async move { store.settle(SettleParams::current(&[closed(blocker, "1")])).await.unwrap() },
        );
    until_held_up(&url, &closing).await;
    user.batch_execute("COMMIT").await.unwrap();
    assert_eq!(closing.await.unwrap(), [Verdict::Accepted]);
    assert_each_starts_once(&stores[0], "waiting", HashSet::from([JobId::new(&job).unwrap()])).await;
}

/// The reverse case: a job that begins to wait finds the chain's row locked by a transaction that
/// closes the chain, and reads it only after that transaction has ended.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_begins_to_wait_for_a_chain_that_an_open_transaction_closes_learns_how_that_ends() {
    let (url, stores) = fleet().await;
    for (end, state) in [("COMMIT", JobState::Ready), ("ROLLBACK", JobState::Blocked)] {
        let blocker = claimed_chains(&stores[0], 1).await.remove(0).lease.job;
        let user = session(&url).await;
        user.batch_execute("BEGIN").await.unwrap();
        let close = "SELECT tidemill.complete_job($1, 3::smallint, '7', NULL, 0, 60000)";
        user.query_one(close, &[&blocker.as_str()]).await.unwrap();
        let job = chain(JobId::generate(), after(std::slice::from_ref(&blocker)));
        let (store, id) = (stores[1].clone(), job.id.clone());
        let registering = tokio::spawn(async move { enqueue(&store, "waiting", &[job]).await.unwrap() });
        until_held_up(&url, &registering).await;
        assert!(!registering.is_finished(), "it must not look before the transaction has ended");
        user.batch_execute(end).await.unwrap();
        assert_eq!(registering.await.unwrap(), [Enqueued::Created]);
        assert_eq!(stores[2].get_job(&id).await.unwrap().unwrap().state, state, "{end}");
    }
    let scene = QueueHarness::new(stores[3].clone(), queue("waiting"));
    let told = String::from_utf8(scene.claim_one().await.body.unwrap().bytes().to_vec()).unwrap();
    assert!(told.contains(r#""output":7"#), "{told}");
}

/// A transaction that stays open begins to wait for one of two chains that end together.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_begins_to_wait_for_a_chain_holds_up_the_end_of_no_other() {
    let (url, stores) = fleet().await;
    let claimed = claimed_chains(&stores[0], 2).await;
    let chains = [claimed[0].lease.job.clone(), claimed[1].lease.job.clone()];
    let user = session(&url).await;
    user.batch_execute("BEGIN").await.unwrap();
    let call = "SELECT tidemill.enqueue('waiting', 'kind', after_chains => ARRAY[$1])";
    let job: String = user.query_one(call, &[&chains[0].as_str()]).await.unwrap().get(0);
    let settlements: Vec<_> = claimed.into_iter().map(|claimed| closed(claimed, "1")).collect();
    let refused = stores[0].settle(SettleParams::current(&settlements)).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    assert_eq!(stores[1].get_job(&chains[0]).await.unwrap().unwrap().state, JobState::Running);
    assert_eq!(stores[1].get_job(&chains[1]).await.unwrap().unwrap().state, JobState::Done);
    user.batch_execute("COMMIT").await.unwrap();
    assert_eq!(stores[0].settle(SettleParams::current(&settlements)).await.unwrap(), [Verdict::Accepted; 2]);
    assert_each_starts_once(&stores[0], "waiting", HashSet::from([JobId::new(&job).unwrap()])).await;
}

/// A chain continues with a job that waits for another chain, which a transaction that stays open
/// is closing.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_to_wait_for_a_chain_being_closed_is_refused_until_that_has_ended() {
    let (url, stores) = fleet().await;
    let mut claimed = claimed_chains(&stores[0], 2).await;
    let (blocker, going) = (claimed.remove(0).lease.job, claimed.remove(0));
    let user = session(&url).await;
    user.batch_execute("BEGIN").await.unwrap();
    let close = "SELECT tidemill.complete_job($1, 3::smallint, '7', NULL, 0, 60000)";
    user.query_one(close, &[&blocker.as_str()]).await.unwrap();
    let next = going.lease.job.at_step(1);
    let job = chain(next.clone(), after(std::slice::from_ref(&blocker)));
    let change = Change::Continue(Box::new(NextJob { queue: queue("waiting"), job }));
    let settlement = [Settlement { lease: going.lease, change }];
    let refused = stores[1].settle(SettleParams::current(&settlement)).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    user.batch_execute("COMMIT").await.unwrap();
    assert_eq!(stores[1].settle(SettleParams::current(&settlement)).await.unwrap(), [Verdict::Accepted]);
    assert_each_starts_once(&stores[0], "waiting", HashSet::from([next])).await;
}
