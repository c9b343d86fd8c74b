//! Which files can be opened, and which are rejected with a clear error.

mod database_dir;

use std::fs;

use database_dir::{DatabaseDir, scene};
use tidemill_core::Error;
use tidemill_core::store::{Inspect, Queues, Severity};
use tidemill_sqlite::{SqliteOptions, SqliteStore};

#[tokio::test]
async fn a_file_made_by_a_newer_version_is_refused() {
    let dir = DatabaseDir::new();
    drop(dir.open().await);
    dir.raw().execute("UPDATE tidemill_schema SET version = 99", []).unwrap();
    let error = dir.try_open().await.unwrap_err();
    assert!(matches!(&error, Error::Unsuitable(why) if why.contains("99")), "{error}");
}

#[tokio::test]
async fn what_is_no_database_is_refused_and_untouched() {
    let dir = DatabaseDir::new();
    let text = "not a database, but longer than a header would be\n".repeat(100);
    fs::write(dir.path(), &text).unwrap();
    let error = dir.try_open().await.unwrap_err();
    let named = dir.path().display().to_string();
    assert!(matches!(&error, Error::Unsuitable(why) if why.contains("not a SQLite database")), "{error}");
    assert!(error.to_string().contains(&named), "{error}");
    assert_eq!(fs::read_to_string(dir.path()).unwrap(), text);
}

#[tokio::test]
async fn a_missing_directory_and_a_directory_are_named() {
    let dir = DatabaseDir::new();
    for path in [dir.path().join("missing/jobs.db"), dir.path().parent().unwrap().to_owned()] {
        let error = SqliteStore::open(SqliteOptions::file(&path)).await.unwrap_err();
        assert!(matches!(&error, Error::Invalid(_)), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

#[tokio::test]
async fn an_empty_file_becomes_a_store() {
    let dir = DatabaseDir::new();
    fs::write(dir.path(), "").unwrap();
    scene(&dir.open().await).enqueue_many(1).await;
}

#[tokio::test]
async fn a_damaged_file_gives_errors_and_never_a_panic() {
    let dir = DatabaseDir::new();
    scene(&dir.open().await).enqueue_many(500).await;
    let mut bytes = fs::read(dir.path()).unwrap();
    // The first page identifies the file; everything after it is noise.
    bytes[4096..].iter_mut().enumerate().for_each(|(index, byte)| *byte = (index * 31 % 251) as u8);
    fs::write(dir.path(), bytes).unwrap();
    let error = match dir.try_open().await {
        Err(error) => error,
        Ok(store) => store.list_queues().await.unwrap_err(),
    };
    assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
}

#[tokio::test]
async fn a_row_that_makes_no_sense_does_not_hold_up_the_rest() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    scene.enqueue_many(3).await;
    dir.raw().execute("UPDATE tidemill_jobs SET id = 'not an id', body = x'ff' WHERE seq = 2", []).unwrap();
    let claimed = scene.claim(3).await;
    assert_eq!(claimed.iter().filter(|one| one.body.is_err()).count(), 1);
    assert_eq!(claimed[1].lease.job.as_str(), "invalid-2");
    dir.raw().execute("UPDATE tidemill_queues SET name = 'not a name'", []).unwrap();
    assert!(matches!(store.list_queues().await, Err(Error::Corrupt(_))));
}

#[tokio::test]
async fn the_file_is_closed_when_the_last_clone_is_dropped() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let clone = store.clone();
    drop(store);
    scene(&clone).enqueue_many(1).await;
    let log = dir.path().with_extension("db-wal");
    assert!(log.exists());
    drop(clone);
    assert!(!log.exists(), "whoever closes the file last takes the log away");
}

#[tokio::test]
async fn a_checkup_finds_nothing_wrong_with_a_new_store() {
    let dir = DatabaseDir::new();
    for store in [dir.open().await, SqliteStore::open(SqliteOptions::memory()).await.unwrap()] {
        let checkup = store.checkup().await.unwrap();
        assert!(checkup.server.starts_with("sqlite 3."), "{}", checkup.server);
        assert!(checkup.findings.iter().all(|finding| finding.severity == Severity::Good), "{checkup:?}");
    }
}

#[tokio::test]
async fn a_checkup_finds_jobs_that_are_in_no_place() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    scene(&store).enqueue_many(2).await;
    dir.raw().execute("DELETE FROM tidemill_waiting WHERE seq = 1", []).unwrap();
    let findings = store.checkup().await.unwrap().findings;
    let jobs = findings.iter().find(|finding| finding.subject == "jobs").unwrap();
    assert_eq!(jobs.severity, Severity::Bad);
}
