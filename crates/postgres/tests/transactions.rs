//! The user's work and the store's in one transaction: all of it or nothing, whatever fails and
//! when.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tidemill_core::chain::{Chain, Next};
use tidemill_core::job::JobState;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{
    self, CompleteParams, Completed, Enqueued, ExtendParams, Extended, Inspect, Jobs, Queues, SettleParams,
    StartParams, Verdict,
};
use tidemill_core::transaction::{Done, TransactionClaim};
use tidemill_core::wake::Wake;
use tidemill_core::{Client, Error, Job, JobId, Outcome, Store};
use tidemill_postgres::{PostgresOptions, PostgresStore};
use tidemill_testkit::conformance::{LONG, QueueHarness};
use tidemill_testkit::faults::Proxy;
use tidemill_testkit::servers::shared_postgres;
use world::{chain, connect, query, queue, session};

/// A store and a table of the user's.
async fn arrange() -> (String, Arc<PostgresStore>, QueueHarness) {
    let url = shared_postgres().database().unwrap();
    query(&url, "CREATE TABLE orders (id text PRIMARY KEY)").await;
    let store = Arc::new(connect(&url).await);
    let scene = QueueHarness::new(store.clone(), queue("jobs"));
    (url, store, scene)
}

async fn orders(url: &str) -> usize {
    query(url, "SELECT id FROM orders").await.len()
}

/// A claim as a worker has it.
async fn claim(scene: &QueueHarness) -> TransactionClaim {
    let claimed = scene.claim_one().await;
    TransactionClaim { lease: claimed.lease, envelope: claimed.body.unwrap(), payload_limit: 1 << 20 }
}

async fn claim_new(scene: &QueueHarness) -> TransactionClaim {
    scene.enqueue(chain()).await;
    claim(scene).await
}

/// A claim of a job that has yet to be started.
async fn claim_ahead(scene: &QueueHarness) -> TransactionClaim {
    scene.enqueue(chain()).await;
    let (QueueHarness { store, queue, worker, lease }, interrupt) = (scene, Box::pin(std::future::pending()));
    let ahead = store::ClaimParams {
        queue,
        worker,
        lease: *lease,
        max: 1,
        starting: 0,
        wait: Duration::ZERO,
        interrupt,
    };
    let claimed = store.claim(ahead).await.unwrap().remove(0);
    TransactionClaim { lease: claimed.lease, envelope: claimed.body.unwrap(), payload_limit: 1 << 20 }
}

/// Settles the end of a job as a worker does.
async fn commit(done: Done<i32>, claim: &TransactionClaim) -> Result<Outcome, Error> {
    done.into_work().commit(claim).await
}

/// Whether the lease is still the current one. It is settled by this.
async fn is_held(store: &PostgresStore, claim: &TransactionClaim) -> bool {
    let envelope = claim.envelope.bytes().clone();
    let change = Change::Requeue { envelope, delay: Duration::ZERO };
    let settlement = Settlement { lease: claim.lease.clone(), change };
    store.settle(SettleParams::current(&[settlement])).await.unwrap() == [Verdict::Accepted]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_rolled_back_enqueues_nothing_and_wakes_nobody() {
    let (url, store, scene) = arrange().await;
    let mut wakes = store.subscribe();
    let (mut user, job) = (session(&url).await, chain());
    let jobs = std::slice::from_ref(&job);
    let transaction = user.transaction().await.unwrap();
    assert_eq!(store.enqueue_in(&transaction, &scene.queue, jobs).await.unwrap(), [Enqueued::Created]);
    transaction.rollback().await.unwrap();
    let tx = store.begin().await.unwrap();
    assert_eq!(tx.enqueue(&scene.queue, jobs).await.unwrap(), [Enqueued::Created]);
    drop(tx);
    let tx = store.begin().await.unwrap();
    assert_eq!(tx.enqueue(&scene.queue, jobs).await.unwrap(), [Enqueued::Created]);
    tx.rollback().await.unwrap();
    assert!(store.get_job(&job.id).await.unwrap().is_none());
    // All earlier wake-ups arrive before this one.
    store.pause(&queue("marker")).await.unwrap();
    loop {
        match wakes.next().await.unwrap() {
            Wake::Queue { queue, .. } if queue == world::queue("marker") => break,
            Wake::Queue { .. } | Wake::DueEarlier(_) => panic!("somebody was woken"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_transaction_sees_the_jobs_it_has_made_itself() {
    let (url, store, scene) = arrange().await;
    let (mut user, job) = (session(&url).await, chain());
    let jobs = std::slice::from_ref(&job);
    // Tables and settings of the user do not interfere.
    user.batch_execute("CREATE TEMP TABLE jobs (id text); CREATE TEMP TABLE leases (id text)").await.unwrap();
    let transaction = user.transaction().await.unwrap();
    store.enqueue_in(&transaction, &scene.queue, jobs).await.unwrap();
    let seen = store.get_in(&transaction, &job.id).await.unwrap().unwrap();
    assert_eq!((seen.job, seen.state, seen.data), (job.id.clone(), JobState::Ready, job.envelope.clone()));
    assert!(store.get_job(&job.id).await.unwrap().is_none());
    transaction.rollback().await.unwrap();
    let tx = store.begin().await.unwrap();
    assert!(tx.get(&job.id).await.unwrap().is_none());
    tx.enqueue(&scene.queue, jobs).await.unwrap();
    assert_eq!(tx.get(&job.id).await.unwrap().unwrap().state, JobState::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_committed_transaction_wake_an_idle_worker() {
    let (url, store, scene) = arrange().await;
    let other = QueueHarness::new(Arc::new(connect(&url).await), queue("jobs"));
    for by_the_store in [true, false] {
        let idle = other.clone();
        let waiting = tokio::spawn(async move { idle.claim_with(1, 1, LONG).await });
        let job = chain();
        let jobs = std::slice::from_ref(&job);
        if by_the_store {
            let tx = store.begin().await.unwrap();
            tx.enqueue(&scene.queue, jobs).await.unwrap();
            tx.execute("INSERT INTO orders VALUES ($1)", &[&job.id.as_str()]).await.unwrap();
            tx.commit().await.unwrap();
        } else {
            let mut user = session(&url).await;
            let transaction = user.transaction().await.unwrap();
            store.enqueue_in(&transaction, &scene.queue, jobs).await.unwrap();
            transaction.execute("INSERT INTO orders VALUES ($1)", &[&job.id.as_str()]).await.unwrap();
            transaction.commit().await.unwrap();
            store.committed(&scene.queue, 1).await;
        }
        let claimed = waiting.await.unwrap();
        assert_eq!(claimed[0].lease.job, job.id);
    }
    assert_eq!(orders(&url).await, 2);
}

#[tokio::test]
async fn the_work_and_the_end_of_the_job_are_committed_together() {
    let (url, store, scene) = arrange().await;
    let claim = claim_new(&scene).await;
    let tx = store.begin().await.unwrap();
    tx.execute("INSERT INTO orders VALUES ('a')", &[]).await.unwrap();
    assert_eq!(orders(&url).await, 0);
    assert_eq!(commit(tx.done(7), &claim).await.unwrap(), Outcome::Settled(Verdict::Accepted));
    assert_eq!(orders(&url).await, 1);
    let record = store.get_job(&claim.lease.job).await.unwrap().unwrap().record.unwrap();
    assert_eq!((record.state, &record.output[..]), (JobState::Done, &b"7"[..]));
    assert!(!is_held(&store, &claim).await);
}

#[tokio::test]
async fn nothing_of_the_work_has_happened_if_the_lease_is_lost() {
    let (url, store, scene) = arrange().await;
    let claim = claim_new(&scene).await;
    let tx = store.begin().await.unwrap();
    tx.execute("INSERT INTO orders VALUES ('a')", &[]).await.unwrap();
    scene.complete(&claim.lease.job, Outcome::Done("1".into())).await;
    assert_eq!(commit(tx.done(7), &claim).await.unwrap(), Outcome::Settled(Verdict::LeaseLost));
    assert_eq!(orders(&url).await, 0);
    let record = store.get_job(&claim.lease.job).await.unwrap().unwrap().record.unwrap();
    assert_eq!(&record.output[..], b"1");
}

#[tokio::test]
async fn nothing_has_happened_if_the_work_fails_and_the_job_can_be_tried_again() {
    let (url, store, scene) = arrange().await;
    query(&url, "ALTER TABLE orders ADD item text UNIQUE DEFERRABLE INITIALLY DEFERRED").await;
    // A statement that fails only at the commit, and one that failed before.
    let works = [
        "INSERT INTO orders VALUES ('a', 'x'), ('b', 'x')",
        "DO $$ BEGIN RAISE 'no' USING ERRCODE = '40001'; END $$",
    ];
    for work in works {
        let claim = claim_new(&scene).await;
        let tx = store.begin().await.unwrap();
        let _ = tx.batch_execute(work).await;
        let committed = commit(tx.done(7), &claim).await.unwrap();
        assert!(matches!(committed, Outcome::Retry { .. }), "{committed:?}");
        assert_eq!(orders(&url).await, 0);
        assert!(is_held(&store, &claim).await);
        scene.settle(&scene.claim_one().await, Outcome::Done("1".into())).await;
    }
    let tx = store.begin().await.unwrap();
    let _ = tx.batch_execute(works[1]).await;
    assert!(matches!(tx.commit().await, Err(Error::Invalid(_))));
}

#[derive(Serialize, Deserialize)]
struct Ship;
struct Checkout;
impl Chain for Checkout {
    type Output = i32;
}
impl Job for Ship {
    const KIND: &'static str = "ship";
    const QUEUE: &'static str = "shipping";
    type Output = Next<Checkout>;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_goes_on_with_the_commit_and_wakes_whoever_waits_for_its_next_step() {
    let (url, store, scene) = arrange().await;
    let claim = claim_new(&scene).await;
    let shipping = QueueHarness::new(Arc::new(connect(&url).await), queue("shipping"));
    let waiting = tokio::spawn(async move { shipping.claim_with(1, 1, LONG).await });
    let tx = store.begin().await.unwrap();
    tx.execute("INSERT INTO orders VALUES ('a')", &[]).await.unwrap();
    let done = tx.done(Next::<Checkout>::job(Ship));
    assert_eq!(done.into_work().commit(&claim).await.unwrap(), Outcome::Settled(Verdict::Accepted));
    let claimed = waiting.await.unwrap();
    assert_eq!(claimed[0].lease.job, claim.lease.job.at_step(1));
    assert_eq!(orders(&url).await, 1);
}

#[tokio::test]
async fn a_staged_job_prepares_in_one_transaction_and_ends_in_another() {
    let (url, store, scene) = arrange().await;
    let claim = claim_new(&scene).await;
    let tx = store.begin().await.unwrap();
    tx.execute("INSERT INTO orders VALUES ('prepared')", &[]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(orders(&url).await, 1);
    let tx = store.begin().await.unwrap();
    tx.execute("UPDATE orders SET id = 'done'", &[]).await.unwrap();
    assert_eq!(commit(tx.done(1), &claim).await.unwrap(), Outcome::Settled(Verdict::Accepted));
    assert_eq!(query(&url, "SELECT id FROM orders").await, [["done"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_before_the_commit_leaves_the_job_as_it_was() {
    let (url, store, scene) = arrange().await;
    let claim = claim_new(&scene).await;
    let tx = store.begin().await.unwrap();
    tx.execute("INSERT INTO orders VALUES ('a')", &[]).await.unwrap();
    let pid: i32 = tx.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    query(&url, &format!("SELECT pg_terminate_backend({pid}, 10000)")).await;
    let committed = commit(tx.done(7), &claim).await;
    assert!(committed.as_ref().is_err_and(Error::is_unavailable), "{committed:?}");
    assert_eq!(orders(&url).await, 0);
    assert!(is_held(&store, &claim).await);
    // The connection is not used again.
    store.begin().await.unwrap().commit().await.unwrap();
}

/// The backend is terminated in the middle of COMMIT, in a deferred trigger.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_within_the_commit_leaves_the_job_as_it_was() {
    let (url, store, scene) = arrange().await;
    query(
        &url,
        "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
         CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION linger()",
    )
    .await;
    let gate = session(&url).await;
    gate.batch_execute("SELECT pg_advisory_lock(1)").await.unwrap();
    let claim = claim_new(&scene).await;
    let tx = store.begin().await.unwrap();
    tx.execute("INSERT INTO orders VALUES ('a')", &[]).await.unwrap();
    let pid: i32 = tx.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let (done, its_claim) = (tx.done(7), claim.clone());
    let committing = tokio::spawn(async move { commit(done, &its_claim).await });
    let lingers = format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {pid}");
    while query(&url, &lingers).await != [["advisory"]] {}
    query(&url, &format!("SELECT pg_terminate_backend({pid}, 10000)")).await;
    let committed = committing.await.unwrap();
    assert!(committed.as_ref().is_err_and(Error::is_unavailable), "{committed:?}");
    assert_eq!(orders(&url).await, 0);
    assert!(is_held(&store, &claim).await);
}

/// The response to COMMIT is lost. What the worker then does to the job has no effect, because the
/// commit took place.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_not_repeated() {
    let (url, store, scene) = arrange().await;
    let proxy = Proxy::to(shared_postgres().port()).await.unwrap();
    let distant = connect(&proxy.url(&url)).await;
    for round in 0..20 {
        let claim = claim_new(&scene).await;
        let tx = distant.begin().await.unwrap();
        tx.execute("INSERT INTO orders VALUES ($1)", &[&claim.lease.job.as_str()]).await.unwrap();
        proxy.drop_answer_to("COMMIT");
        let committed = commit(tx.done(round), &claim).await;
        assert!(committed.as_ref().is_err_and(Error::is_unavailable), "{committed:?}");
        // The backend ends with its connection; until then it may still commit.
        let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL
            AND pid <> pg_backend_pid() AND state <> 'idle'";
        while query(&url, busy).await != [["0"]] {}
        let order = format!("SELECT id FROM orders WHERE id = '{}'", claim.lease.job);
        let took_place = !query(&url, &order).await.is_empty();
        assert_eq!(is_held(&store, &claim).await, !took_place, "round {round}");
        if !took_place {
            scene.settle(&scene.claim_one().await, Outcome::Done("1".into())).await;
        }
    }
    assert_eq!(proxy.answers_dropped(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_completed_in_a_users_transaction_and_its_worker_hears_of_it_afterwards() {
    let (url, store, scene) = arrange().await;
    let client = Client::new(store.clone());
    let claim = claim_new(&scene).await;
    let mut wakes = store.subscribe();
    let mut user = session(&url).await;
    let change = claim
        .settlement(tidemill_core::chain::Completion::Output("5".into()), store.clock().now())
        .unwrap()
        .change;
    let complete = || CompleteParams { job: &claim.lease.job, change: &change };
    let transaction = user.transaction().await.unwrap();
    let (completed, _) = store.complete_in(&transaction, complete()).await.unwrap();
    assert_eq!(completed, Completed::Yes);
    transaction.rollback().await.unwrap();
    assert_eq!(store.get_job(&claim.lease.job).await.unwrap().unwrap().state, JobState::Running);
    let transaction = user.transaction().await.unwrap();
    let (completed, pending) = store.complete_in(&transaction, complete()).await.unwrap();
    assert_eq!(completed, Completed::Yes);
    transaction.commit().await.unwrap();
    store.announce(pending).await;
    while wakes.next().await.unwrap() != Wake::LeaseLost(claim.lease.job.clone()) {}
    let output = client.untyped_job_handle(claim.lease.job.clone()).wait().await.unwrap();
    assert_eq!(output.get(), "5");
    let tx = store.begin().await.unwrap();
    assert_eq!(tx.complete(complete()).await.unwrap(), Completed::Ended(JobState::Done));
}

/// A user's transaction completes one of three jobs of one worker, and stays open.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_does_not_hold_up_jobs_it_has_nothing_to_do_with() {
    let (url, store, scene) = arrange().await;
    let claims = [claim_new(&scene).await, claim_new(&scene).await, claim_new(&scene).await];
    let end = |claim: &TransactionClaim| {
        claim.settlement(tidemill_core::chain::Completion::Output("5".into()), store.clock().now()).unwrap()
    };
    let settlements: Vec<_> = claims.iter().map(end).collect();
    let mut user = session(&url).await;
    let transaction = user.transaction().await.unwrap();
    let complete = CompleteParams { job: &claims[0].lease.job, change: &settlements[0].change };
    let _ = store.complete_in(&transaction, complete).await.unwrap();
    let until = "SELECT until FROM tidemill.leases ORDER BY seq";
    let before = query(&url, until).await;
    let leases: Vec<_> = claims.iter().map(|claim| claim.lease.clone()).collect();
    let extend = ExtendParams { worker: &scene.worker, leases: &leases, lease: LONG * 10 };
    assert_eq!(store.extend(extend).await.unwrap(), [Extended::Yes; 3]);
    let after = query(&url, until).await;
    assert_eq!(after[0], before[0]);
    assert!(after[1] != before[1] && after[2] != before[2], "{before:?} {after:?}");
    let refused = store.settle(SettleParams::current(&settlements)).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    for claim in &claims[1..] {
        assert_eq!(store.get_job(&claim.lease.job).await.unwrap().unwrap().state, JobState::Done);
    }
    transaction.commit().await.unwrap();
    let verdicts = store.settle(SettleParams::current(&settlements)).await.unwrap();
    assert_eq!(verdicts, [Verdict::LeaseLost, Verdict::Accepted, Verdict::Accepted]);
    assert_eq!(store.settle(SettleParams::current(&settlements)).await.unwrap(), [Verdict::LeaseLost; 3]);
}

/// Two jobs were claimed ahead. A user's transaction completes one, stays open, and is rolled back.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_does_not_hold_up_the_start_of_jobs_it_has_nothing_to_do_with() {
    let (url, store, scene) = arrange().await;
    let claims = [claim_ahead(&scene).await, claim_ahead(&scene).await];
    let leases: Vec<_> = claims.iter().map(|claim| claim.lease.clone()).collect();
    let mut user = session(&url).await;
    let transaction = user.transaction().await.unwrap();
    let change = &claims[0]
        .settlement(tidemill_core::chain::Completion::Output("5".into()), store.clock().now())
        .unwrap()
        .change;
    let _ = store.complete_in(&transaction, CompleteParams { job: &leases[0].job, change }).await.unwrap();
    let start = || StartParams { worker: &scene.worker, leases: &leases };
    assert_eq!(store.start(start()).await.unwrap(), [Verdict::LeaseLost, Verdict::Accepted]);
    let started = "SELECT started FROM tidemill.leases ORDER BY seq";
    assert_eq!(query(&url, started).await, [["f"], ["t"]]);
    transaction.rollback().await.unwrap();
    assert!(is_held(&store, &claims[0]).await, "it can be given back");
    assert_eq!(store.start(start()).await.unwrap(), [Verdict::LeaseLost, Verdict::Accepted]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_for_handlers_are_plain_few_and_used_again() {
    let (url, ..) = arrange().await;
    let options = PostgresOptions { connections: 1, ..PostgresOptions::parse(&url).unwrap() };
    let store = Arc::new(PostgresStore::connect(options).await.unwrap());
    let pid = "SELECT pg_backend_pid(), current_setting('search_path'), current_setting('statement_timeout')";
    let tx = store.begin().await.unwrap();
    let row = tx.query_one(pid, &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(1), row.get::<_, &str>(2)), ("\"$user\", public", "0"));
    let second = tokio::spawn({
        let store = store.clone();
        async move { store.begin().await.unwrap().query_one(pid, &[]).await.unwrap().get::<_, i32>(0) }
    });
    // The store's own statements do not wait for handlers.
    assert!(store.get_job(&JobId::generate()).await.unwrap().is_none());
    assert!(!second.is_finished());
    drop(tx);
    assert_eq!(second.await.unwrap(), row.get::<_, i32>(0));
    let tx = store.begin().await.unwrap();
    assert!(tx.execute("SELECT 1 / 0", &[]).await.is_err());
    drop(tx);
    let tx = store.begin().await.unwrap();
    let statement = tx.prepare_cached(pid).await.unwrap();
    assert_eq!(tx.query_one(&statement, &[]).await.unwrap().get::<_, i32>(0), row.get::<_, i32>(0));
    tx.commit().await.unwrap();
}
