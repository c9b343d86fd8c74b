//! A store in the user's own file, beside the user's tables, and files from the time when the store
//! had its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod database_dir;

use database_dir::{DatabaseDir, scene};
use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::store::{Inspect, Severity};
use tidemill_testkit::conformance::harness::done;

const USER: &str = "
    CREATE TABLE jobs (title TEXT); INSERT INTO jobs VALUES ('baker');
    CREATE TABLE queues (a); CREATE INDEX letters ON jobs (title);
    PRAGMA user_version = 7; PRAGMA application_id = 4711;";

fn number(dir: &DatabaseDir, sql: &str) -> i64 {
    dir.raw().query_row(sql, [], |row| row.get(0)).unwrap()
}

fn user_part(dir: &DatabaseDir) -> [i64; 4] {
    [
        number(dir, "SELECT count(*) FROM jobs WHERE title = 'baker'"),
        number(dir, "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE '%tidemill%'"),
        number(dir, "PRAGMA user_version"),
        number(dir, "PRAGMA application_id"),
    ]
}

#[tokio::test]
async fn a_users_database_gets_our_tables_and_keeps_everything_of_its_own() {
    let dir = DatabaseDir::new();
    dir.raw().execute_batch(USER).unwrap();
    let before = user_part(&dir);
    for _ in 0..2 {
        let store = dir.open().await;
        let scene = scene(&store);
        scene.enqueue_many(3).await;
        for claimed in scene.claim(3).await {
            scene.settle(&claimed, done()).await;
        }
        let checkup = store.checkup().await.unwrap();
        assert!(checkup.findings.iter().all(|finding| finding.severity == Severity::Good), "{checkup:?}");
    }
    assert_eq!(user_part(&dir), before);
    let foreign = "SELECT count(*) FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'tidemill\\_%' ESCAPE '\\'";
    assert_eq!(number(&dir, foreign), 3, "what is not ours is the user's");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_and_a_users_connection_share_a_file() {
    let dir = DatabaseDir::new();
    dir.raw().execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
    let mut work: Vec<_> = Vec::new();
    for _ in 0..2 {
        let scene = scene(&dir.open().await);
        work.push(tokio::spawn(async move {
            for _ in 0..50 {
                scene.enqueue_many(1).await;
                for claimed in scene.try_claim(1).await {
                    scene.settle(&claimed, done()).await;
                }
            }
        }));
    }
    let user = dir.raw();
    work.push(tokio::task::spawn_blocking(move || {
        for _ in 0..50 {
            user.execute("INSERT INTO orders DEFAULT VALUES", []).unwrap();
        }
    }));
    for part in work {
        part.await.expect("nobody hears of another");
    }
    assert_eq!(number(&dir, "SELECT count(*) FROM orders"), 50);
    let store = dir.open().await;
    let rest = scene(&store).counts().await.ready as usize;
    for claimed in scene(&store).claim(rest).await {
        scene(&store).settle(&claimed, done()).await;
    }
    scene(&store).assert_counts([0; 4]).await;
}

#[tokio::test]
async fn a_file_of_our_own_is_taken_over_with_its_jobs() {
    let dir = DatabaseDir::new();
    dir.raw().execute_batch(include_str!("database_dir/former.sql")).unwrap();
    let store = dir.open().await;
    let scene = scene(&store);
    let expected = [
        ("ready", JobState::Ready),
        ("later", JobState::Scheduled),
        ("held", JobState::Running),
        ("dead", JobState::Dead),
        ("over", JobState::Done),
    ];
    for (id, state) in expected {
        assert_eq!(scene.state(&JobId::new(id).unwrap()).await, Some(state), "{id}");
    }
    scene.assert_counts([1, 1, 1, 1]).await;
    let claimed = scene.claim_one().await;
    assert!(claimed.lease.token.0 >> 64 > 41, "tokens go on growing");
    drop(store);
    assert_eq!(
        number(&dir, "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE '%tidemill\\_%' ESCAPE '\\'"),
        0
    );
    assert_eq!([number(&dir, "PRAGMA user_version"), number(&dir, "PRAGMA application_id")], [0, 0]);
    scene_again(&dir).await;
}

/// Opening it once more finds it unchanged.
async fn scene_again(dir: &DatabaseDir) {
    scene(&dir.open().await).assert_counts([0, 1, 2, 1]).await;
}

#[tokio::test]
async fn a_table_of_the_users_with_our_name_is_named_and_left_alone() {
    let dir = DatabaseDir::new();
    dir.raw().execute_batch("CREATE TABLE tidemill_jobs (a)").unwrap();
    let error = dir.try_open().await.unwrap_err();
    assert!(error.to_string().contains("tidemill_jobs"), "{error}");
    assert_eq!(number(&dir, "SELECT count(*) FROM sqlite_schema"), 1);
}
