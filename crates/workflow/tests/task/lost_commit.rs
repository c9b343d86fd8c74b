//! A store that loses its last commit, like a database that fails over to an asynchronous standby.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use tidemill_sqlite::SqliteOptions;
use tidemill_worker::{Fail, State, Worker};
use tidemill_workflow::{Activity, Ctx, RunWorkflows};

use crate::world::{Background, GO, MAIN, World, patiently, until};

const DRAW: Activity<(), u64> = Activity::new("draw");

/// Returns another number in every attempt.
async fn draw((): (), State(drawn): State<Arc<AtomicU64>>) -> Result<u64, Fail> {
    Ok(drawn.fetch_add(1, Ordering::SeqCst))
}

/// Copies the database as it is now.
fn replicate(primary: &Path, standby: &Path) {
    let primary = Connection::open(primary).unwrap();
    primary.execute("VACUUM INTO ?1", [standby.to_str().unwrap()]).unwrap();
}

/// Replaces the contents of the primary by those of the standby. Processes that have the primary
/// open do not notice.
fn fail_over(primary: &Path, standby: &Path) {
    let mut primary = Connection::open(primary).unwrap();
    primary.execute("ATTACH ?1 AS standby", [standby.to_str().unwrap()]).unwrap();
    let tx = primary.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    // `pragma_table_info` does not list generated columns, which cannot be copied.
    let tables = "SELECT name, (SELECT group_concat(name) FROM pragma_table_info(sqlite_master.name))
        FROM sqlite_master WHERE type = 'table' AND name LIKE 'tidemill%'";
    let mut list = tx.prepare(tables).unwrap();
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let tables: Vec<(String, String)> = list.query_map([], read).unwrap().map(Result::unwrap).collect();
    for (table, columns) in tables {
        let copy = format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM standby.{table}");
        tx.execute_batch(&format!("DELETE FROM main.{table}; {copy}")).unwrap();
    }
    drop(list);
    tx.commit().unwrap();
}

/// The first worker caches the run after a commit that is then lost. Another worker brings the run
/// to the same position with different commands. The first worker must continue from the journal,
/// not from its cache.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_continued_from_the_journal_after_its_commit_was_lost() {
    let directory = tempfile::tempdir().unwrap();
    let (primary, standby) = (directory.path().join("primary.db"), directory.path().join("standby.db"));
    let drawn = Arc::new(AtomicU64::new(0));
    let worker = |world: &World| {
        let worker = Worker::builder(&world.client).state(drawn.clone()).activity(&DRAW, draw);
        Background::run(worker.workflow(&MAIN, async |ctx: Ctx, _: u64| {
            let drawn = ctx.local(&DRAW, ()).await?;
            Ok(drawn * 10 + ctx.signals(&GO).recv().await?)
        }))
    };
    let world = World::on(SqliteOptions::file(&primary)).await;
    let run = world.start().await;
    replicate(&primary, &standby);
    let survivor = worker(&world);
    until(async || (world.info(run.id()).await.cursor == 1).then_some(())).await;
    let promoted = World::on(SqliteOptions::file(&standby)).await;
    let other = worker(&promoted);
    until(async || (promoted.info(run.id()).await.cursor == 1).then_some(())).await;
    other.stop().await;
    fail_over(&primary, &standby);
    run.signal(&GO, &5).await.unwrap();
    assert_eq!(patiently(run.wait()).await.unwrap(), 15, "the journal says that 1 was drawn");
    survivor.stop().await;
}
