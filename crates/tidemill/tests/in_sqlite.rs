//! Jobs that are enqueued and completed in the user's rusqlite transactions, through the facade.

#![cfg(feature = "sqlite")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test is named by what it shows and fails by panicking"
)]

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tidemill::sqlite::rusqlite::{Connection, TransactionBehavior};
use tidemill::store::Completed;
use tidemill::transaction::Done;
use tidemill::transaction::{CompleteIn, EnqueueIn};
use tidemill::{Chain, Client, Fail, Job, JobContext, Next, Worker, sqlite};

struct Sale;
impl Chain for Sale {
    type Output = i64;
}

#[derive(Clone, Serialize, Deserialize)]
struct Sell {
    item: i64,
}
impl Job for Sell {
    const KIND: &'static str = "sell";
    type Output = Next<Sale>;
}

#[derive(Serialize, Deserialize)]
struct Approve;
impl Job for Approve {
    const KIND: &'static str = "approve";
    const QUEUE: &'static str = "approvals";
    type Output = Next<Sale>;
}

/// Sells the item and asks for approval, in one transaction. Item 13 cannot be sold.
async fn sell(job: Sell, cx: JobContext) -> Result<Done<Next<Sale>>, Fail> {
    sqlite::done(&cx, move |db| {
        db.execute("INSERT INTO sold VALUES (?1)", [job.item])?;
        if job.item == 13 {
            return Err(Fail::dead("unlucky", "nobody wants it"));
        }
        Ok(Next::job(Approve))
    })
}

struct World {
    folder: TempDir,
    client: Client,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("app.db");
        // The user's database exists first, with the user's own tables.
        let connection = Connection::open(&file).unwrap();
        connection
            .execute_batch("CREATE TABLE sold (item INTEGER NOT NULL); CREATE TABLE jobs (title TEXT)")
            .unwrap();
        let client = tidemill::connect(&format!("sqlite:{}", file.display())).await.unwrap();
        Self { folder, client }
    }

    fn connection(&self) -> Connection {
        Connection::open(self.folder.path().join("app.db")).unwrap()
    }

    fn sold(&self) -> i64 {
        self.connection().query_row("SELECT count(*) FROM sold", [], |row| row.get(0)).unwrap()
    }

    async fn work(&self) {
        Worker::builder(&self.client).handle(sell).queue("default", 2).drain().await.unwrap();
    }
}

#[tokio::test]
async fn a_job_is_there_if_and_only_if_its_transaction_commits() {
    let world = World::new().await;
    let mut connection = world.connection();
    for commits in [false, true] {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        tx.execute("INSERT INTO jobs VALUES ('my own')", []).unwrap();
        let one = world.client.job(Sell { item: 1 }).enqueue_in(&tx).unwrap();
        let many = world.client.jobs([Sell { item: 2 }, Sell { item: 3 }]).enqueue_in(&tx).unwrap();
        let id = one.id().clone();
        if commits {
            tx.commit().unwrap();
            assert_eq!(many.committed().len(), 2);
            assert_eq!(one.committed().id(), &id);
        } else {
            tx.rollback().unwrap();
        }
        assert_eq!(world.client.store().get_job(&id).await.unwrap().is_some(), commits);
    }
    world.work().await;
    assert_eq!(world.sold(), 3);
}

#[tokio::test]
async fn work_and_the_job_s_end_are_one_and_an_approval_is_part_of_the_user_s_transaction() {
    let world = World::new().await;
    let unlucky = world.client.job(Sell { item: 13 }).enqueue().await.unwrap();
    let lucky = world.client.job(Sell { item: 7 }).enqueue().await.unwrap();
    world.work().await;
    assert_eq!(world.sold(), 1, "what failed is undone");
    assert!(unlucky.wait().await.unwrap_err().to_string().contains("unlucky"));

    let mut connection = world.connection();
    for commits in [false, true] {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let done = world.client.complete_in::<Approve>(&tx, lucky.id(), Next::done(7)).unwrap();
        assert_eq!(*done.value(), Completed::Yes);
        if commits {
            tx.commit().unwrap();
            done.committed();
        }
    }
    assert_eq!(lucky.wait().await.unwrap(), 7);
}

#[tokio::test]
async fn a_transaction_elsewhere_is_refused() {
    let world = World::new().await;
    let mut elsewhere = Connection::open_in_memory().unwrap();
    let tx = elsewhere.transaction().unwrap();
    let error = world.client.job(Sell { item: 1 }).enqueue_in(&tx).unwrap_err().to_string();
    assert!(error.contains("this store is in"), "{error}");
    let error = world.client.job(Sell { item: 1 }).enqueue_in(&world.connection()).unwrap_err().to_string();
    assert!(error.contains("no transaction is open"), "{error}");
}
