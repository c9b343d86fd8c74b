//! The end of a job together with the user's work: both or neither.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod database_dir;

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use database_dir::{DatabaseDir, orders, scene};
use futures_util::future::join_all;
use rusqlite::Connection;
use tidemill_core::chain::{Chain, Next};
use tidemill_core::job::JobState;
use tidemill_core::store::{Claimed, Completed, Verdict};
use tidemill_core::transaction::{Done, TransactionClaim};
use tidemill_core::{Error, Job, Outcome};
use tidemill_sqlite::{SqliteOptions, SqliteStore};
use tidemill_testkit::conformance::harness::{chain, envelope, job, output};
use tidemill_testkit::conformance::{LONG, SHORT};

/// The variable with the path of the database, for this program's child process.
const PATH: &str = "TIDEMILL_TEST_DATABASE";

fn claim(claimed: &Claimed) -> TransactionClaim {
    TransactionClaim {
        lease: claimed.lease.clone(),
        envelope: envelope(claimed).clone(),
        payload_limit: 1 << 20,
    }
}

/// Work that inserts a row with this number.
fn order(store: &SqliteStore, number: i64) -> Done<i64> {
    store.done(move |connection| insert(connection, number).map(|()| number))
}

fn insert(connection: &Connection, number: i64) -> Result<(), Outcome> {
    let mut insert = connection.prepare_cached("INSERT INTO orders VALUES (?1)").unwrap();
    insert.execute([number]).map(drop).map_err(|error| retry(&error.to_string()))
}

fn retry(error: &str) -> Outcome {
    Outcome::Retry { error: error.to_owned(), after: Some(Duration::ZERO) }
}

async fn commit<O: tidemill_core::chain::IntoCompletion>(
    done: Done<O>,
    claimed: &Claimed,
) -> Result<Outcome, Error> {
    done.into_work().commit(&claim(claimed)).await
}

#[tokio::test]
async fn the_work_and_the_end_of_the_job_are_committed_together() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let scene = scene(&store);
    let id = scene.enqueue(chain()).await;
    let claimed = scene.claim_one().await;
    assert_eq!(commit(order(&store, 7), &claimed).await.unwrap(), Outcome::Settled(Verdict::Accepted));
    assert_eq!(orders(&dir), 1);
    assert_eq!(&scene.get(&id).await.unwrap().record.unwrap().output[..], b"7");
    assert_eq!(commit(order(&store, 8), &claimed).await.unwrap(), Outcome::Settled(Verdict::LeaseLost));
    assert_eq!(orders(&dir), 1);
}

#[tokio::test]
async fn when_the_lease_is_lost_the_work_does_not_run() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let scene = scene(&store).with_lease(SHORT);
    scene.enqueue(job()).await;
    let late = scene.claim_one().await;
    scene.expire_and_rescue(1).await;
    let work = store.done(|_| -> Result<(), _> { panic!("it runs") });
    assert_eq!(commit(work, &late).await.unwrap(), Outcome::Settled(Verdict::LeaseLost));
    // The next holder is not affected.
    let current = scene.claim_one().await;
    assert_eq!(commit(order(&store, 1), &late).await.unwrap(), Outcome::Settled(Verdict::LeaseLost));
    assert_eq!(commit(order(&store, 2), &current).await.unwrap(), Outcome::Settled(Verdict::Accepted));
    assert_eq!(orders(&dir), 1);
}

#[tokio::test]
async fn work_that_fails_is_undone_and_its_job_goes_on_as_it_says() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let scene = scene(&store);
    let id = scene.enqueue(job()).await;
    let claimed = scene.claim_one().await;
    let refused = store.done(|connection| insert(connection, 1).and(Err::<(), _>(retry("refused"))));
    assert_eq!(commit(refused, &claimed).await.unwrap(), retry("refused"));
    let panicking = store.done(|connection| -> Result<(), _> {
        insert(connection, 1)?;
        panic!("too bad")
    });
    let failed = commit(panicking, &claimed).await.unwrap();
    assert!(matches!(&failed, Outcome::Retry { error, .. } if error.ends_with("panicked: too bad")));
    assert_eq!((orders(&dir), scene.state(&id).await), (0, Some(JobState::Running)));
    scene.settle(&claimed, retry("refused")).await;
    let again = scene.claim_one().await;
    assert_eq!(envelope(&again).attempts(), 1);
}

struct Checkout;

impl Chain for Checkout {
    type Output = i64;
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Ship;

impl Job for Ship {
    const KIND: &'static str = "ship";
    const QUEUE: &'static str = "jobs";
    type Output = Next<Checkout>;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_goes_on_and_jobs_are_made_with_the_work() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let (here, inside) = (scene(&store), store.clone());
    let id = here.enqueue(chain()).await;
    let claimed = here.claim_one().await;
    let (waiting, queue, extra) = (here.clone(), here.queue.clone(), job());
    let made = extra.id.clone();
    let waiting = tokio::spawn(async move { waiting.claim_with(2, 2, LONG).await });
    let work = store.done(move |connection| {
        insert(connection, 1)?;
        // The wake-ups are published with the end of the job.
        let _ = inside.enqueue_in(connection, &queue, &[extra]).map_err(|error| retry(&error.to_string()))?;
        Ok(Next::<Checkout>::job(Ship))
    });
    assert_eq!(commit(work, &claimed).await.unwrap(), Outcome::Settled(Verdict::Accepted));
    let woken: HashSet<_> = waiting.await.unwrap().into_iter().map(|claimed| claimed.lease.job).collect();
    assert_eq!(woken, HashSet::from([id.at_step(1), made]));
    assert_eq!(orders(&dir), 1);
}

#[tokio::test]
async fn work_that_cannot_end_its_job_is_undone() {
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let scene = scene(&store);
    let id = scene.enqueue(chain()).await;
    let claimed = scene.claim_one().await;
    // A payload beyond the limit of this worker.
    let claim = TransactionClaim { payload_limit: 0, ..claim(&claimed) };
    let work = store.done(|connection| insert(connection, 1).map(|()| Next::<Checkout>::job(Ship)));
    let refused = work.into_work().commit(&claim).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    // Work that ends its own job from outside has no job left to end.
    let (inside, change, job) = (store.clone(), scene.settlement(&claimed, output("1")).change, id.clone());
    let work = store.done(move |connection| {
        insert(connection, 1)?;
        let complete = tidemill_core::store::CompleteParams { job: &job, change: &change };
        assert_eq!(inside.complete_in(connection, complete).unwrap().0, Completed::Yes);
        Ok(())
    });
    assert_eq!(commit(work, &claimed).await.unwrap(), Outcome::Settled(Verdict::LeaseLost));
    assert_eq!((orders(&dir), scene.state(&id).await), (0, Some(JobState::Running)));
}

/// Not a case: the child process of the next one. Ends jobs, each with a row of its number, until
/// it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Ok(path) = std::env::var(PATH) else { return };
    let store = SqliteStore::open(SqliteOptions::file(path)).await.unwrap();
    let scene = scene(&store);
    loop {
        for claimed in scene.try_claim(8).await {
            let number = String::from_utf8_lossy(envelope(&claimed).payload()).parse().unwrap();
            let store = store.clone();
            tokio::spawn(async move {
                commit(order(&store, number), &claimed).await.unwrap();
                println!("\nended {number}");
            });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_leaves_a_row_for_each_job_it_ended_and_no_other() {
    const JOBS: i64 = 2_000;
    let dir = DatabaseDir::with_orders();
    let store = dir.open().await;
    let scene = scene(&store);
    let jobs = |numbers: std::ops::Range<i64>| {
        let traits = |number: i64| tidemill_testkit::conformance::harness::JobSpec {
            payload: number.to_string(),
            ..Default::default()
        };
        numbers.map(|number| traits(number).job()).collect::<Vec<_>>()
    };
    for start in (0..JOBS).step_by(500) {
        scene.enqueue_batch(jobs(start..start + 500)).await.unwrap();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(PATH, dir.path()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ended = lines.filter_map(|line| line.unwrap().strip_prefix("ended ").map(str::to_owned));
    let seen: Vec<i64> = ended.by_ref().take(300).map(|number| number.parse().unwrap()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let raw = dir.raw();
    let mut rows = raw.prepare("SELECT id FROM orders").unwrap();
    let rows: HashSet<i64> = rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(seen.iter().all(|number| rows.contains(number)), "what was acknowledged is there");
    let mut open = raw.prepare("SELECT CAST(body ->> '$.payload' AS INTEGER) FROM tidemill_jobs").unwrap();
    let open: HashSet<i64> = open.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(open.is_disjoint(&rows), "a job that is still there has no row");
    assert_eq!(open.len() + rows.len(), JOBS as usize, "one that is gone has one");
}

/// Not a case: how many jobs end with work of their own, each synced to disk. Run with `--ignored
/// --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn atomic_completions_per_second() {
    const JOBS: usize = 5_000;
    for concurrency in [1, 10, 100] {
        let dir = DatabaseDir::with_orders();
        let store = dir.open().await;
        let scene = scene(&store).with_lease(Duration::from_secs(600));
        for _ in 0..JOBS / 500 {
            scene.enqueue_many(500).await;
        }
        let mut claimed = scene.claim(JOBS).await;
        let jobs = if concurrency == 1 { 500 } else { JOBS };
        claimed.truncate(jobs);
        let shares: Vec<Vec<_>> = claimed.chunks(jobs.div_ceil(concurrency)).map(<[_]>::to_vec).collect();
        let begun = Instant::now();
        join_all(shares.into_iter().enumerate().map(|(share, jobs)| {
            let store = store.clone();
            tokio::spawn(async move {
                for (index, claimed) in jobs.iter().enumerate() {
                    let number = (share * JOBS + index) as i64;
                    assert_eq!(
                        commit(order(&store, number), claimed).await.unwrap(),
                        Outcome::Settled(Verdict::Accepted)
                    );
                }
            })
        }))
        .await;
        let rate = jobs as f64 / begun.elapsed().as_secs_f64();
        println!("{rate:.0} atomic completions a second at a concurrency of {concurrency}");
    }
}
