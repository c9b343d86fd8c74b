//! The same workflow on every store: all features, with two workers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use tidemill::workflow::{ListRunsParams, RunStatus, WorkflowName};
use tidemill::workflow::{ParentClose, RunWorkflows, StartWorkflows};
use tidemill::{
    Activity, Client, Ctx, Fail, Namespace, Query, Signal, Update, Worker, WorkerBuilder, Workflow,
    WorkflowError,
};
use tidemill_testkit::servers::{shared_cluster, shared_postgres, shared_redis};
use tokio_util::sync::CancellationToken;

const DOUBLE: Activity<u64, u64> = Activity::new("double");
const ADD: Signal<u64> = Signal::new("add");
const TOTAL: Query<(), u64> = Query::new("total");
const SET: Update<u64, u64> = Update::new("set");
const MAIN: Workflow<u64, u64> = Workflow::new("main");
const CHILD: Workflow<u64, u64> = Workflow::new("child");
const FOREVER: Workflow<(), ()> = Workflow::new("forever");

async fn double(n: u64) -> Result<u64, Fail> {
    Ok(n * 2)
}

async fn child(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    ctx.sleep(Duration::from_millis(20)).await?;
    Ok(ctx.activity(&DOUBLE, n).await?)
}

async fn forever(ctx: Ctx, (): ()) -> Result<(), WorkflowError> {
    Ok(ctx.sleep(Duration::from_secs(3600)).await?)
}

async fn main_flow(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    ctx.on_query(&TOTAL, move |()| n);
    if n >= 100 {
        ctx.set_attribute("large", &true);
        let _orphan = ctx.child(&FOREVER, ()).parent_close(ParentClose::Terminate).start().await?;
        return Ok(n);
    }
    let (parts, children) = tidemill::join!(
        ctx.join_all((0..5).map(|part| ctx.activity(&DOUBLE, part))),
        ctx.join_all((0..3).map(|part| ctx.child(&CHILD, part))),
    );
    let mut total = n;
    for part in parts {
        total += part?;
    }
    for part in children {
        total += part?;
    }
    total += ctx.signals(&ADD).recv().await?;
    let request = ctx.updates(&SET).recv().await?;
    total += request.input;
    request.reply(&total);
    ctx.continue_as_new(&total)
}

fn worker(client: &Client) -> WorkerBuilder {
    let worker = Worker::builder(client).activity(&DOUBLE, double).workflow(&MAIN, main_flow);
    worker.workflow(&CHILD, child).workflow(&FOREVER, forever)
}

async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.unwrap()
}

async fn works_on(client: Client) {
    let stop = CancellationToken::new();
    let workers = [1, 2].map(|_| tokio::spawn(worker(&client).run_until(stop.clone().cancelled_owned())));
    let run = client.workflow(&MAIN, 1).key("k").start().await.unwrap();
    assert_eq!(client.workflow(&MAIN, 1).key("k").start().await.unwrap().id(), run.id());
    run.signal(&ADD, &3).await.unwrap();
    // 1, twice 0..5, twice 0..3, 3, and the update's addition.
    assert_eq!(patiently(run.update(&SET, &70)).await.unwrap(), 100);
    assert_eq!(patiently(run.wait()).await.unwrap(), 100);
    assert_eq!(patiently(run.query(&TOTAL, &())).await.unwrap(), 100);
    let list = ListRunsParams {
        workflow: Some(WorkflowName::new("forever").unwrap()),
        limit: 10,
        ..Default::default()
    };
    let orphan = client.runs(list).await.unwrap().items.remove(0).run;
    let orphan = client.run_handle(&FOREVER, orphan);
    let ended = patiently(orphan.wait()).await.unwrap_err().to_string();
    assert!(ended.contains("terminated: the parent has ended"), "{ended}");
    assert_eq!(run.info().await.unwrap().status, RunStatus::Completed);
    stop.cancel();
    for worker in workers {
        patiently(worker).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_on_sqlite() {
    works_on(tidemill::connect("sqlite::memory:").await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_on_postgres() {
    works_on(tidemill::connect(&shared_postgres().database().unwrap()).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_on_redis() {
    let connector = tidemill::ClientBuilder::new(&shared_redis().url());
    works_on(connector.namespace(Namespace::new("flow:").unwrap()).connect().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_on_a_redis_cluster() {
    let connector = tidemill::ClientBuilder::new(&shared_cluster().url());
    works_on(connector.namespace(Namespace::new("flow:").unwrap()).connect().await.unwrap()).await;
}
