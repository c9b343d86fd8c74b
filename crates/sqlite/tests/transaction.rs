//! Jobs in a transaction of the user's own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod database_dir;

use std::collections::HashSet;

use database_dir::{DatabaseDir, orders, scene, scene_on};
use futures_util::StreamExt;
use rusqlite::{Connection, TransactionBehavior};
use tidemill_core::job::JobState;
use tidemill_core::store::{CompleteParams, Completed, Enqueued, Queues};
use tidemill_core::wake::{Wake, WakeStream};
use tidemill_core::{Error, JobId, Store};
use tidemill_sqlite::{SqliteOptions, SqliteStore};
use tidemill_testkit::conformance::harness::{chain, chain_after, job, output};
use tidemill_testkit::conformance::{LONG, QueueHarness};

/// A transaction of the user's that has written a row of theirs.
fn begin(connection: &mut Connection) -> rusqlite::Transaction<'_> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    tx.execute("INSERT INTO orders DEFAULT VALUES", []).unwrap();
    tx
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_there_if_and_when_the_users_transaction_commits() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let (scene, mut user, job) = (scene(&store), dir.raw(), job());
    let waiting = tokio::spawn({
        let scene = scene.clone();
        async move { scene.claim_with(1, 1, LONG).await }
    });
    let tx = begin(&mut user);
    let (made, pending) = store.enqueue_in(&tx, &scene.queue, std::slice::from_ref(&job)).unwrap();
    assert_eq!(made, [Enqueued::Created]);
    assert_eq!(scene.state(&job.id).await, None);
    tx.commit().unwrap();
    store.announce(pending);
    assert_eq!(waiting.await.unwrap()[0].lease.job, job.id);
    assert_eq!(orders(&dir), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_word_after_the_commit_the_job_starts_all_the_same() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let (here, mut user) = (scene(&store), dir.raw());
    let waiting = tokio::spawn(async move { here.claim_with(1, 1, LONG).await });
    let tx = begin(&mut user);
    let _ = store.enqueue_in(&tx, &scene(&store).queue, &[job()]).unwrap();
    tx.commit().unwrap();
    assert_eq!(waiting.await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_transaction_that_is_rolled_back_enqueues_nothing_and_wakes_nobody() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let (scene, mut user) = (scene(&store), dir.raw());
    scene.enqueue(job()).await;
    scene.claim_one().await;
    let mut wakes = store.subscribe();
    let tx = begin(&mut user);
    let _ = store.enqueue_in(&tx, &scene.queue, &[job(), job()]).unwrap();
    tx.rollback().unwrap();
    // The next wake-up is the first one received.
    store.pause(&scene_on(&store, "elsewhere").queue).await.unwrap();
    assert_eq!(wakes.next().await, Some(Wake::all_waiters(scene_on(&store, "elsewhere").queue)));
    scene.assert_counts([0, 0, 1, 0]).await;
    assert_eq!(orders(&dir), 0);
}

#[tokio::test]
async fn an_enqueue_that_fails_leaves_the_users_transaction_as_it_was() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let (scene, mut user) = (scene(&store), dir.raw());
    let tx = begin(&mut user);
    let refused = store.enqueue_in(&tx, &scene.queue, &[job(), chain_after(&[JobId::generate()])]);
    assert!(matches!(refused, Err(Error::NotFound(_))), "{refused:?}");
    let _ = store.enqueue_in(&tx, &scene.queue, &[job()]).unwrap();
    tx.commit().unwrap();
    scene.assert_counts([1, 0, 0, 0]).await;
    assert_eq!(orders(&dir), 1);
}

fn refusal(store: &SqliteStore, connection: &Connection, scene: &QueueHarness) -> String {
    match store.enqueue_in(connection, &scene.queue, &[job()]) {
        Err(Error::Invalid(why)) => why,
        other => panic!("it was not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_connection_that_is_not_to_the_stores_file_or_in_no_transaction_is_refused() {
    let (dir, elsewhere) = (DatabaseDir::with_orders(), DatabaseDir::with_orders());
    let store = dir.open().await;
    let scene = scene(&store);
    let why = refusal(&store, &dir.raw(), &scene);
    assert!(why.contains("no transaction"), "{why}");
    let mut other = elsewhere.raw();
    let why = refusal(&store, &begin(&mut other), &scene);
    assert!(why.contains(&dir.path().canonicalize().unwrap().display().to_string()), "{why}");
    let memory = SqliteStore::open(SqliteOptions::memory()).await.unwrap();
    let why = refusal(&memory, &begin(&mut other), &scene);
    assert!(why.contains("in memory"), "{why}");
}

#[cfg(unix)]
#[tokio::test]
async fn one_file_is_one_file_by_whatever_name() {
    let dir = DatabaseDir::with_orders();
    let link = dir.path().with_file_name("link.db");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    let store = SqliteStore::open(SqliteOptions::file(&link)).await.unwrap();
    let mut user = dir.raw();
    let tx = begin(&mut user);
    let _ = store.enqueue_in(&tx, &scene(&store).queue, &[job()]).unwrap();
    tx.commit().unwrap();
    scene(&store).claim_one().await;
}

#[tokio::test]
async fn a_job_is_ended_from_outside_if_the_users_transaction_commits() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let (scene, mut user) = (scene(&store), dir.raw());
    let id = scene.enqueue(chain()).await;
    let held = scene.claim_one().await;
    let waiter = scene.enqueue(chain_after(std::slice::from_ref(&id))).await;
    let change = scene.settlement(&held, output(r#""approved""#)).change;
    let mut wakes = store.subscribe();
    for commit in [false, true] {
        let tx = begin(&mut user);
        let (done, pending) = store.complete_in(&tx, CompleteParams { job: &id, change: &change }).unwrap();
        assert_eq!(done, Completed::Yes);
        if commit {
            tx.commit().unwrap();
            store.announce(pending);
        } else {
            tx.rollback().unwrap();
            drop(pending);
            // The next commit publishes only its own wake-ups, none of the rolled-back transaction.
            let (own, announced) = enqueue_and_commit(&store, &mut user, &mut wakes).await;
            assert_eq!(announced, HashSet::from([own]));
        }
        let expected =
            if commit { [JobState::Done, JobState::Ready] } else { [JobState::Running, JobState::Blocked] };
        assert_eq!([scene.state(&id).await, scene.state(&waiter).await], expected.map(Some));
    }
    let mut received = HashSet::new();
    let announced = [Wake::Finished(id.clone()), Wake::LeaseLost(id.clone())];
    while !announced.iter().all(|wake| received.contains(wake)) {
        received.insert(wakes.next().await.unwrap());
    }
    assert_eq!(scene.claim_one().await.lease.job, waiter);
}

/// A job on a queue of its own in a transaction that commits: its wake-ups, and all wake-ups
/// received until then.
async fn enqueue_and_commit(
    store: &SqliteStore,
    user: &mut Connection,
    wakes: &mut WakeStream,
) -> (Wake, HashSet<Wake>) {
    let (queue, last) = (scene_on(store, "own").queue, Wake::all_waiters(scene_on(store, "elsewhere").queue));
    let tx = begin(user);
    let (_, pending) = store.enqueue_in(&tx, &queue, &[job()]).unwrap();
    tx.commit().unwrap();
    store.announce(pending);
    store.pause(&scene_on(store, "elsewhere").queue).await.unwrap();
    let mut received = HashSet::new();
    loop {
        match wakes.next().await.unwrap() {
            wake if wake == last => return (Wake::Queue { queue, jobs: 1 }, received),
            // The writer has detected the write of another connection.
            Wake::Everything => {}
            wake => drop(received.insert(wake)),
        }
    }
}

#[tokio::test]
async fn a_commit_tells_nothing_of_what_another_transaction_rolled_back() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let (scene, mut user) = (scene(&store), dir.raw());
    let mut wakes = store.subscribe();
    let tx = begin(&mut user);
    let (_, pending) = store.enqueue_in(&tx, &scene.queue, &[job(), job()]).unwrap();
    tx.rollback().unwrap();
    let (own, received) = enqueue_and_commit(&store, &mut user, &mut wakes).await;
    assert_eq!(received, HashSet::from([own]));
    drop(pending);
    scene.assert_counts([0; 4]).await;
}
