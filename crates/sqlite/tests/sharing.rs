//! Several processes on one file: no caller sees a lock error, and no acknowledged job is lost.

mod database_dir;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use database_dir::{DatabaseDir, scene, scene_on};
use tidemill_core::store::{ClaimParams, Due, Extended, Jobs, NewJob};
use tidemill_core::{JobId, Store, Timestamp};
use tidemill_sqlite::{PausedClock, SqliteOptions, SqliteStore};
use tidemill_testkit::conformance::harness::{done, job};
use tidemill_testkit::conformance::{LONG, until};

/// The variable with the path of the database, for this program's child process.
const PATH: &str = "TIDEMILL_TEST_DATABASE";

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_can_be_opened_by_many_at_once() {
    let dir = DatabaseDir::new();
    let opening: Vec<_> = (0..16)
        .map(|_| {
            let options = SqliteOptions::file(dir.path());
            // Each on a thread and a runtime of its own, as processes are.
            std::thread::spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(SqliteStore::open(options)).unwrap()
            })
        })
        .collect();
    let stores: Vec<_> = opening.into_iter().map(|thread| thread.join().unwrap()).collect();
    for store in &stores {
        scene(store).enqueue_many(1).await;
    }
    scene(&stores[0]).assert_counts([16, 0, 0, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_share_a_file_without_an_error() {
    let dir = DatabaseDir::new();
    let mut writers = Vec::new();
    for _ in 0..4 {
        let scene = scene(&dir.open().await);
        writers.push(tokio::spawn(async move {
            for _ in 0..25 {
                scene.enqueue_many(4).await;
                for claimed in scene.try_claim(4).await {
                    scene.settle(&claimed, done()).await;
                }
            }
        }));
    }
    for writer in writers {
        writer.await.expect("no writer hears of another");
    }
    let rest = scene(&dir.open().await);
    while let Some(claimed) = rest.try_claim(1).await.pop() {
        rest.settle(&claimed, done()).await;
    }
    rest.assert_counts([0; 4]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_claim_hears_of_work_and_of_times_from_another_process() {
    let dir = DatabaseDir::new();
    let (here, there) = (dir.open().await, dir.open().await);
    let (waiting, other) = (scene(&here), scene(&there));
    let claim = tokio::spawn(async move { waiting.claim_with(1, 1, LONG).await });
    let id = other.enqueue(job()).await;
    assert_eq!(claim.await.unwrap()[0].lease.job, id);

    let waiting = scene(&here);
    let claim = tokio::spawn(async move { waiting.claim_with(1, 1, LONG).await });
    let id = other.enqueue(NewJob { due: Due::In(Duration::from_millis(120)), ..job() }).await;
    assert_eq!(claim.await.unwrap()[0].lease.job, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_claim_asks_nothing_while_other_queues_have_work() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let (here, elsewhere) = (scene(&store), scene_on(&store, "elsewhere"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let claim = tokio::spawn({
        let store = store.clone();
        async move {
            let interrupt = Box::pin(async { stopped.await.unwrap_or_default() });
            let now = ClaimParams::now(&here.queue, &here.worker, LONG, 1);
            store.claim(ClaimParams { wait: LONG, interrupt, ..now }).await
        }
    });
    until("the first look", || async { (store.commands() == 1).then_some(()) }).await;
    for _ in 0..10 {
        elsewhere.enqueue_many(1).await;
    }
    drop(stop);
    assert!(claim.await.unwrap().unwrap().is_empty());
    assert_eq!(store.commands(), 11);
}

/// Not a case: the child process of the next one. Acknowledges jobs on its output until it is
/// killed.
#[tokio::test]
async fn child() {
    let Ok(path) = std::env::var(PATH) else { return };
    let store = SqliteStore::open(SqliteOptions::file(path)).await.unwrap();
    let scene = scene(&store);
    loop {
        let id = scene.enqueue(job()).await;
        println!("\nacknowledged {id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_acknowledged_is_there() {
    let dir = DatabaseDir::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(PATH, dir.path()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ids =
        lines.filter_map(|line| line.unwrap().strip_prefix("acknowledged ").map(|id| id.to_owned()));
    let seen: Vec<JobId> = ids.by_ref().take(50).map(|id| JobId::new(&id).unwrap()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let store = dir.open().await;
    let scene = scene(&store);
    for id in seen {
        assert!(scene.get(&id).await.is_some(), "{id} is lost");
    }
    until("the jobs to be given out again", || async { scene.try_claim(1).await.pop() }).await;
}

/// Changes whenever another connection has committed.
fn version(connection: &rusqlite::Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA data_version", [], |row| row.get(0))
}

#[tokio::test]
async fn extending_leases_that_were_extended_just_now_writes_nothing() {
    let dir = DatabaseDir::new();
    let clock = PausedClock::new(Timestamp(1_735_689_600_000));
    let options = SqliteOptions::file(dir.path()).clock(Arc::new(clock.clone()));
    let store = SqliteStore::open(options).await.unwrap();
    let scene = scene(&store);
    let held = [scene.enqueue(job()).await, scene.enqueue(job()).await];
    let leases: Vec<_> = scene.claim(2).await.into_iter().map(|claimed| claimed.lease).collect();
    let other = dir.raw();
    let before = version(&other).unwrap();
    for _ in 0..3 {
        // Otherwise an extension would write the same end, and SQLite writes no page that stays the
        // same.
        clock.advance(Duration::from_millis(10));
        assert_eq!(scene.extend(&leases).await, [Extended::Yes, Extended::Yes]);
    }
    assert_eq!(version(&other).unwrap(), before, "each write would make other processes extend theirs");
    clock.advance(scene.lease / 3);
    assert_eq!(scene.extend(&leases).await, [Extended::Yes, Extended::Yes]);
    assert!(version(&other).unwrap() > before);
    // A cancellation is returned all the same.
    store.cancel(&held[0]).await.unwrap();
    assert_eq!(scene.extend(&leases).await, [Extended::Cancelling, Extended::Yes]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_nobody_waits_for_takes_nothing() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    scene.enqueue(job()).await;
    // Another connection has the lock, so the claim is queued.
    let lock = dir.raw();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = store.commands();
    let claim = scene.store.claim(ClaimParams::now(&scene.queue, &scene.worker, LONG, 1));
    let given_up = tokio::time::timeout(Duration::from_millis(200), claim).await;
    assert!(given_up.is_err() && store.commands() > before);
    lock.execute_batch("COMMIT").unwrap();
    scene.assert_counts([1, 0, 0, 0]).await;
    // The writer has run it by now, because it runs requests in order.
    scene.enqueue(job()).await;
    scene.assert_counts([2, 0, 0, 0]).await;
}
