//! Jobs that are enqueued, completed and ended in PostgreSQL transactions, through the facade.

#![cfg(feature = "postgres")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test is named by what it shows and fails by panicking"
)]

use serde::{Deserialize, Serialize};
use tidemill::postgres::tokio_postgres::{Client as PgClient, NoTls};
use tidemill::store::Completed;
use tidemill::transaction::Done;
use tidemill::transaction::{CompleteIn, EnqueueIn};
use tidemill::{Chain, Client, Fail, Job, JobContext, Next, Worker, postgres};
use tidemill_testkit::servers::Postgres;

struct Sale;
impl Chain for Sale {
    type Output = i64;
}

#[derive(Serialize, Deserialize)]
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
    let tx = postgres::begin(&cx).await?;
    tx.execute("INSERT INTO sold VALUES ($1)", &[&job.item]).await?;
    if job.item == 13 {
        return Err(Fail::dead("unlucky", "nobody wants it"));
    }
    Ok(tx.done(Next::job(Approve)))
}

struct World {
    client: Client,
    pg: PgClient,
    _server: Postgres,
}

impl World {
    async fn new() -> Self {
        let server = Postgres::start().unwrap();
        let url = server.database().unwrap();
        let (pg, connection) = tidemill::postgres::tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        pg.batch_execute("CREATE TABLE sold (item bigint NOT NULL)").await.unwrap();
        Self { client: tidemill::connect(&url).await.unwrap(), pg, _server: server }
    }

    async fn sold(&self) -> i64 {
        self.pg.query_one("SELECT count(*) FROM sold", &[]).await.unwrap().get(0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_and_their_ends_are_part_of_the_user_s_transactions() {
    let mut world = World::new().await;
    for commits in [false, true] {
        let mut tx = world.pg.transaction().await.unwrap();
        let one = world.client.job(Sell { item: 1 }).enqueue_in(&mut tx).await.unwrap();
        let unlucky = world.client.jobs([Sell { item: 13 }]).enqueue_in(&mut tx).await.unwrap();
        let id = one.id().clone();
        if commits {
            tx.commit().await.unwrap();
            assert_eq!((one.committed().await.id(), unlucky.committed().await.len()), (&id, 1));
        } else {
            tx.rollback().await.unwrap();
        }
        assert_eq!(world.client.store().get_job(&id).await.unwrap().is_some(), commits);
    }
    Worker::builder(&world.client).handle(sell).queue("default", 2).drain().await.unwrap();
    assert_eq!(world.sold().await, 1, "what failed is undone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_made_in_a_transaction_can_be_completed_in_it() {
    let mut world = World::new().await;
    let mut tx = world.pg.transaction().await.unwrap();
    let sale = world.client.job(Sell { item: 7 }).enqueue_in(&mut tx).await.unwrap();
    let id = sale.id().clone();
    let sold = world.client.complete_in::<Sell>(&mut tx, &id, Next::job(Approve)).await.unwrap();
    let approved = world.client.complete_in::<Approve>(&mut tx, &id, Next::done(7)).await.unwrap();
    assert_eq!((*sold.value(), *approved.value()), (Completed::Yes, Completed::Yes));
    tx.commit().await.unwrap();
    approved.committed().await;
    sold.committed().await;
    assert_eq!(sale.committed().await.wait().await.unwrap(), 7);
}
