//! Whether expired records are removed as fast as jobs create them.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidemill::{Client, Fail, Job, Worker};
use tidemill_testkit::servers::shared_postgres;

use crate::world::{Background, ms};

/// Jobs per second, duration, and retention of their results.
const RATE: usize = 1_000;
const LONG: Duration = Duration::from_secs(300);
const KEPT: Duration = Duration::from_secs(1);

/// Jobs per minute.
const ALLOWED: i64 = 60 * RATE as i64;

/// Jobs per enqueue.
const STEP: usize = 100;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Tick(usize);

impl Job for Tick {
    const KIND: &'static str = "tick";
    type Output = usize;
}

async fn tick(Tick(number): Tick) -> Result<usize, Fail> {
    Ok(number)
}

/// The records in the store.
struct Seen {
    all: i64,
    expired: i64,
}

/// Enqueues jobs at a steady rate and counts the records every ten seconds.
async fn measure(place: &str, client: &Client, look: impl AsyncFn() -> Seen) {
    let worker = Background::run(Worker::builder(client).handle(tick).queue("default", 200));
    let (begun, mut made, mut worst, mut looked) = (Instant::now(), 0, 0, Instant::now());
    while begun.elapsed() < LONG {
        let due = (begun.elapsed().as_secs_f64() * RATE as f64) as usize;
        if made >= due {
            tokio::time::sleep(ms(20)).await;
        } else {
            client.jobs((made..made + STEP).map(Tick)).keep_result(KEPT).enqueue().await.unwrap();
            made += STEP;
        }
        if looked.elapsed() > Duration::from_secs(10) {
            looked = Instant::now();
            let Seen { all, expired } = look().await;
            worst = worst.max(expired);
            println!(
                "{place} {:>3} s: {made} jobs, {all} records, {expired} expired",
                begun.elapsed().as_secs()
            );
        }
    }
    worker.stop().await;
    let rate = made as f64 / begun.elapsed().as_secs_f64();
    println!("{place}: {rate:.0} jobs/s, at most {worst} expired records");
    assert!(worst < ALLOWED, "{worst} expired records on {place}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn expired_records_are_removed_as_fast_as_they_are_made_on_postgres() {
    let url = shared_postgres().database().unwrap();
    let client = tidemill::connect(&url).await.unwrap();
    let (pg, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let look = async || {
        let count = "SELECT count(*), count(*) FILTER (WHERE due <= tidemill.now_ms())
            FROM tidemill.jobs WHERE state IN (3, 4)";
        let row = pg.query_one(count, &[]).await.unwrap();
        Seen { all: row.get(0), expired: row.get(1) }
    };
    measure("PostgreSQL", &client, look).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn expired_records_are_removed_as_fast_as_they_are_made_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("records.db");
    let client = tidemill::connect(&format!("sqlite:{}", file.display())).await.unwrap();
    measure("SQLite", &client, async || count(&file)).await;
}

fn count(file: &Path) -> Seen {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    let count = "SELECT count(*), count(*) FILTER (WHERE expires <= unixepoch('subsec') * 1000) FROM tidemill_records";
    let read = |row: &rusqlite::Row<'_>| Ok(Seen { all: row.get(0)?, expired: row.get(1)? });
    connection.query_row(count, [], read).unwrap()
}
