//! The user's work on the store's own writer.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod database_dir;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use database_dir::{DatabaseDir, orders, scene};
use rusqlite::Connection;
use tidemill_core::store::{EnqueueParams, Jobs};
use tidemill_core::{Error, Store};
use tidemill_sqlite::{SqliteOptions, SqliteStore, TransactError};
use tidemill_testkit::conformance::harness::{chain_after, job};
use tidemill_testkit::conformance::{LONG, until};

fn order(connection: &Connection) -> rusqlite::Result<usize> {
    connection.execute("INSERT INTO orders DEFAULT VALUES", [])
}

#[tokio::test]
async fn work_is_done_as_a_whole_or_not_at_all() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let number = store.transact(|connection| order(connection).map(|_| connection.last_insert_rowid())).await;
    assert_eq!(number.unwrap(), 1);
    let refused = store.transact(|connection| order(connection).map_err(drop).and(Err::<(), _>(()))).await;
    assert!(matches!(refused, Err(TransactError::Work(()))));
    let panicked = store.transact(|connection| -> rusqlite::Result<()> {
        order(connection)?;
        panic!("no {}", "more")
    });
    let panicked = panicked.await.unwrap_err();
    assert_eq!(panicked.to_string(), "the work in the transaction panicked: no more");
    assert_eq!(orders(&dir), 1);
    store.transact(order).await.unwrap();
    assert_eq!(orders(&dir), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_piece_of_work_runs_once_and_one_that_fails_harms_no_other() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let (scene, runs) = (scene(&store), Arc::new(AtomicUsize::new(0)));
    let before = store.commands();
    // While another connection has the lock, requests queue up, and then share few transactions.
    let lock = dir.raw();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let work = (0..30_usize).map(|index| {
        let (store, runs) = (store.clone(), runs.clone());
        tokio::spawn(async move {
            let work = move |connection: &Connection| {
                runs.fetch_add(1, Ordering::Relaxed);
                order(connection).unwrap();
                match index % 3 {
                    0 => Ok(()),
                    1 => Err("refused"),
                    _ => panic!("it panics"),
                }
            };
            store.transact(work).await.is_ok()
        })
    });
    let work: Vec<_> = work.collect();
    let enqueues = [vec![job()], vec![job(), chain_after(&[tidemill_core::JobId::generate()])]].map(|jobs| {
        let (store, queue) = (store.clone(), scene.queue.clone());
        tokio::spawn(async move { store.enqueue(EnqueueParams { queue: &queue, jobs: &jobs }).await })
    });
    until("all to be sent", || async { (store.commands() == before + 32).then_some(()) }).await;
    lock.execute_batch("COMMIT").unwrap();
    let mut good = 0;
    for piece in work {
        good += usize::from(piece.await.unwrap());
    }
    let [added, refused] = enqueues;
    assert!(added.await.unwrap().is_ok());
    assert!(matches!(refused.await.unwrap(), Err(Error::NotFound(_))));
    assert_eq!((good, runs.load(Ordering::Relaxed), orders(&dir)), (10, 30, 10));
    scene.assert_counts([1, 0, 0, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_made_on_the_writer_wakes_whoever_waits_for_it() {
    let dir = DatabaseDir::with_orders();
    for store in [dir.open().await, SqliteStore::open(SqliteOptions::memory()).await.unwrap()] {
        let (here, queue) = (scene(&store), scene(&store).queue);
        let waiting = tokio::spawn(async move { here.claim_with(1, 1, LONG).await });
        let (inside, job) = (store.clone(), job());
        let id = job.id.clone();
        let made = store.transact(move |connection| inside.enqueue_in(connection, &queue, &[job])).await;
        // Published with the commit, not by the test.
        drop(made.unwrap());
        assert_eq!(waiting.await.unwrap()[0].lease.job, id);
    }
}

#[tokio::test]
async fn work_that_ends_its_transaction_is_told_so_and_the_store_goes_on() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let ended = store.transact(|connection| connection.execute_batch("COMMIT")).await;
    assert!(matches!(&ended, Err(TransactError::Store(Error::Unavailable { .. }))), "{ended:?}");
    store.transact(order).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_told_to_the_work_and_nothing_of_it_has_happened() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    scene(&store).enqueue_many(5).await;
    store.set_pragma("max_page_count = 60").await.unwrap();
    let much = |connection: &Connection| {
        order(connection)?;
        connection.execute("INSERT INTO notes VALUES (zeroblob(1000000))", [])
    };
    assert!(store.transact(much).await.is_err());
    assert_eq!(orders(&dir), 0);
    scene(&store).claim(5).await;
}

#[tokio::test]
async fn work_may_hold_the_last_handle_of_its_store() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let (begun, begins) = tokio::sync::oneshot::channel();
    let (go, goes) = std::sync::mpsc::channel::<()>();
    let task = tokio::spawn(async move {
        let inside = store.clone();
        let work = move |connection: &Connection| {
            let _held = &inside;
            begun.send(()).unwrap();
            goes.recv().unwrap();
            order(connection)
        };
        store.transact(work).await
    });
    begins.await.unwrap();
    // The caller has gone, and with it every other handle.
    task.abort();
    assert!(task.await.is_err());
    go.send(()).unwrap();
    until("the work to be done and the file closed", || async {
        let closed = !dir.path().with_extension("db-wal").exists();
        closed.then_some(())
    })
    .await;
    assert_eq!(orders(&dir), 1);
}
