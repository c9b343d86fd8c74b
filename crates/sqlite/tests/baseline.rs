//! The baseline loop beside the store.

mod database_dir;

use bytes::Bytes;
use database_dir::{DatabaseDir, scene};
use tidemill_sqlite::{SqliteOptions, baselines};

#[tokio::test]
async fn the_baseline_loop_moves_everything_once_and_leaves_nothing() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    scene(&store).enqueue_many(2).await;
    let baselines = baselines(SqliteOptions::file(dir.path())).await.unwrap();
    let [baseline] = &baselines[..] else { panic!("one baseline") };
    assert_eq!((baseline.work(), baseline.batch().enqueue, baseline.batch().claim), ("table", 256, 256));
    baseline.enqueue(&vec![Bytes::from_static(b"{}"); 300]).await.unwrap();
    assert_eq!(baseline.claim(256).await.unwrap(), 256);
    assert_eq!(baseline.claim(256).await.unwrap(), 44);
    assert_eq!(baseline.claim(256).await.unwrap(), 0);
    assert_eq!(baseline.wait().await.unwrap(), None);
    baseline.clear().await.unwrap();
    let left = "SELECT count(*) FROM sqlite_schema WHERE name = 'tidemill_floor'";
    assert_eq!(dir.raw().query_row(left, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    drop(store);
    dir.open().await;
}
