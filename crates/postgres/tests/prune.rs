//! Pruning keeps up with the workers, in one process at a time.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;
use tidemill_core::store::Jobs;
use tidemill_testkit::servers::shared_postgres;
use world::{connect, query, session};

/// More than four calls delete.
const RECORDS: u64 = 9_000;

/// A store with many expired records, and as many that stay.
async fn filled() -> (String, tidemill_postgres::PostgresStore) {
    let url = shared_postgres().database().unwrap();
    let store = connect(&url).await;
    query(
        &url,
        &format!(
            "INSERT INTO tidemill.jobs (id, queue, state, due, finished, keep, envelope)
                 SELECT 'old-' || n, 1, 3, n, 0, 1, '' FROM generate_series(1, {RECORDS}) AS n;
             INSERT INTO tidemill.jobs (id, queue, state, due, finished, keep, envelope)
                 SELECT 'new-' || n, 1, 3, 9999999999999, 0, 1, '' FROM generate_series(1, {RECORDS}) AS n"
        ),
    )
    .await;
    (url, store)
}

#[tokio::test]
async fn pruning_goes_on_while_there_is_more_and_removes_all_whose_time_is_over() {
    let (url, store) = filled().await;
    let mut removed = 0;
    loop {
        let pruned = store.prune(&[]).await.unwrap();
        removed += pruned.records;
        if !pruned.more {
            break;
        }
    }
    assert_eq!(removed, RECORDS);
    let left = query(&url, "SELECT count(*), min(id) FROM tidemill.jobs").await;
    assert_eq!(left, [[RECORDS.to_string(), "new-1".to_owned()]]);
    // Once it has caught up, it scans from the start again.
    query(&url, "UPDATE tidemill.jobs SET due = 5 WHERE id = 'new-7'").await;
    assert_eq!(store.prune(&[]).await.unwrap().records, 1);
}

#[tokio::test]
async fn one_process_prunes_at_a_time() {
    let (url, store) = filled().await;
    let other = session(&url).await;
    other
        .batch_execute("BEGIN; SET LOCAL search_path = tidemill; SELECT * FROM jobs_prune(10, 0)")
        .await
        .unwrap();
    let pruned = store.prune(&[]).await.unwrap();
    assert_eq!((pruned.records, pruned.more), (0, false));
    other.batch_execute("COMMIT").await.unwrap();
    assert!(store.prune(&[]).await.unwrap().more);
}
