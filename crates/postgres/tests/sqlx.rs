//! Jobs in transactions of sqlx.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::Arc;

use sqlx::{Connection, PgConnection};
use tidemill_core::chain::{Completion, Dedup, JobLinks};
use tidemill_core::job::JobState;
use tidemill_core::store::{CompleteParams, Completed, Enqueued, Inspect, NewJob};
use tidemill_core::transaction::TransactionClaim;
use tidemill_core::{Error, JobId, Store};
use tidemill_postgres::PostgresStore;
use tidemill_testkit::conformance::{LONG, QueueHarness};
use tidemill_testkit::servers::shared_postgres;
use world::{chain, connect, query, queue};

async fn arrange() -> (String, Arc<PostgresStore>, PgConnection) {
    let url = shared_postgres().database().unwrap();
    query(&url, "CREATE TABLE orders (id text PRIMARY KEY)").await;
    let store = Arc::new(connect(&url).await);
    let user = PgConnection::connect(&url).await.unwrap();
    (url, store, user)
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_made_with_the_commit_and_not_without_it() {
    let (url, store, mut user) = arrange().await;
    let job = chain();
    let jobs = std::slice::from_ref(&job);
    for commits in [false, true] {
        let mut transaction = user.begin().await.unwrap();
        sqlx::query("INSERT INTO orders VALUES ('a')").execute(&mut *transaction).await.unwrap();
        let made = store.enqueue_in_sqlx(&mut transaction, &queue("jobs"), jobs).await.unwrap();
        assert_eq!(made, [Enqueued::Created]);
        if commits {
            let idle = QueueHarness::new(Arc::new(connect(&url).await), queue("jobs"));
            let waiting = tokio::spawn(async move { idle.claim_with(1, 1, LONG).await });
            transaction.commit().await.unwrap();
            store.committed(&queue("jobs"), 1).await;
            assert_eq!(waiting.await.unwrap()[0].lease.job, job.id);
        } else {
            transaction.rollback().await.unwrap();
            assert!(store.get_job(&job.id).await.unwrap().is_none());
        }
        assert_eq!(query(&url, "SELECT id FROM orders").await.len(), usize::from(commits));
    }
}

#[tokio::test]
async fn keys_and_chains_that_are_waited_for_work_as_ever() {
    let (_, store, mut user) = arrange().await;
    let once =
        |key: &str| NewJob { links: JobLinks { after: Vec::new(), dedup: Some(Dedup::any(key)) }, ..chain() };
    let first = once("k");
    let after = NewJob { links: JobLinks { after: vec![first.id.clone()], dedup: None }, ..chain() };
    let jobs = [first.clone(), once("k"), after.clone()];
    let made = store.enqueue_in_sqlx(&mut user, &queue("jobs"), &jobs).await.unwrap();
    assert_eq!(made, [Enqueued::Created, Enqueued::Duplicate(first.id.clone()), Enqueued::Created]);
    assert_eq!(store.get_job(&after.id).await.unwrap().unwrap().state, JobState::Blocked);
    let lost = NewJob { links: JobLinks { after: vec![JobId::generate()], dedup: None }, ..chain() };
    let refused = store.enqueue_in_sqlx(&mut user, &queue("jobs"), &[lost]).await;
    assert!(matches!(refused, Err(Error::NotFound(_))), "{refused:?}");
}

#[tokio::test]
async fn a_job_is_completed_with_the_commit() {
    let (_, store, mut user) = arrange().await;
    let scene = QueueHarness::new(store.clone(), queue("jobs"));
    scene.enqueue(chain()).await;
    let claimed = scene.claim_one().await;
    let (lease, envelope) = (claimed.lease, claimed.body.unwrap());
    let claim = TransactionClaim { lease, envelope, payload_limit: 1 << 20 };
    let change = claim.settlement(Completion::Output("5".into()), store.clock().now()).unwrap().change;
    let complete = CompleteParams { job: &claim.lease.job, change: &change };
    let mut transaction = user.begin().await.unwrap();
    let (completed, pending) = store.complete_in_sqlx(&mut transaction, complete).await.unwrap();
    assert_eq!(completed, Completed::Yes);
    assert_eq!(scene.state(&claim.lease.job).await, Some(JobState::Running));
    let seen = store.get_in_sqlx(&mut transaction, &claim.lease.job).await.unwrap().unwrap();
    assert_eq!((seen.state, &seen.record.unwrap().output[..]), (JobState::Done, &b"5"[..]));
    transaction.commit().await.unwrap();
    store.announce(pending).await;
    assert_eq!(scene.state(&claim.lease.job).await, Some(JobState::Done));
}
