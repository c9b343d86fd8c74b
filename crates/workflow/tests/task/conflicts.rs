//! Idempotency keys: a second start returns the same run, or follows the conflict policy.

use tidemill_core::workflow::RunStatus;
use tidemill_workflow::{OnConflict, RunError, RunHandle, StartRun, StartWorkflows, Workflow};

use crate::world::{MAIN, World};

fn start(world: &World) -> StartRun<u64> {
    world.client.workflow(&MAIN, 1).key("order-7")
}

async fn status(world: &World, run: &RunHandle<u64>) -> RunStatus {
    world.info(run.id()).await.status
}

#[tokio::test]
async fn the_second_start_with_a_key_gets_the_first_run() {
    let world = World::new().await;
    let first = start(&world).start().await.unwrap();
    let second = start(&world).start().await.unwrap();
    assert_eq!((first.created(), second.created(), first.id()), (true, false, second.id()));
    let refused = start(&world).on_conflict(OnConflict::Reject).start().await;
    assert!(matches!(refused, Err(RunError::Exists(run)) if run == *first.id()));
    let other = world.client.workflow(&MAIN, 1).key("order-8").start().await.unwrap();
    assert_ne!(other.id(), first.id());
}

#[tokio::test]
async fn a_run_is_found_by_its_key() {
    const OTHER: Workflow<u64, u64> = Workflow::new("other");
    let world = World::new().await;
    assert!(world.client.run_by_key(&MAIN, "order-7").await.unwrap().is_none());
    let first = start(&world).start().await.unwrap();
    let found = world.client.run_by_key(&MAIN, "order-7").await.unwrap().unwrap();
    assert_eq!((found.id(), found.created()), (first.id(), false));
    assert!(world.client.run_by_key(&OTHER, "order-7").await.unwrap().is_none());
    let untyped = world.client.untyped_run_by_key("main", "order-7").await.unwrap().unwrap();
    assert_eq!(untyped.id(), first.id());
    let second = start(&world).on_conflict(OnConflict::TerminateExisting).start().await.unwrap();
    let found = world.client.run_by_key(&MAIN, "order-7").await.unwrap().unwrap();
    assert_eq!(found.id(), second.id());
    for (workflow, key) in [("main", ""), ("no name", "k")] {
        let error = world.client.untyped_run_by_key(workflow, key).await.unwrap_err();
        assert!(error.is_invalid(), "{error}");
    }
}

#[tokio::test]
async fn of_many_starts_at_once_one_starts_a_run() {
    let world = World::new().await;
    let starts = (0..20).map(|_| start(&world).start());
    let runs = futures_util::future::join_all(starts).await;
    assert_eq!(runs.iter().filter(|run| run.as_ref().unwrap().created()).count(), 1);
    assert!(runs.iter().all(|run| run.as_ref().unwrap().id() == runs[0].as_ref().unwrap().id()));
}

#[tokio::test]
async fn an_existing_run_makes_way_if_it_is_told_to() {
    let world = World::new().await;
    let first = start(&world).start().await.unwrap();
    let second = start(&world).on_conflict(OnConflict::TerminateExisting).start().await.unwrap();
    assert!(second.created() && second.id() != first.id());
    assert_eq!(status(&world, &first).await, RunStatus::Terminated);
    let patient = || start(&world).on_conflict(OnConflict::StartAfterClose);
    assert_eq!(patient().start().await.unwrap().id(), second.id());
    second.terminate("").await.unwrap();
    assert!(patient().start().await.unwrap().created());
}

#[tokio::test]
async fn an_id_is_one_run_and_bad_input_is_refused() {
    let world = World::new().await;
    let named = || world.client.workflow(&MAIN, 1).id("order-7");
    assert!(named().start().await.unwrap().created());
    assert!(!named().start().await.unwrap().created());
    assert!(matches!(named().on_conflict(OnConflict::Reject).start().await, Err(RunError::Exists(_))));
    for bad in [
        named().on_conflict(OnConflict::TerminateExisting),
        named().id("a b"),
        named().key(""),
        named().version("no version"),
        named().route("dlq"),
        named().attribute("no name", &1),
    ] {
        let error = bad.start().await.unwrap_err();
        assert!(matches!(&error, RunError::Store(error) if error.is_invalid()), "{error}");
    }
    let unknown = world.client.untyped_workflow("a/b", tidemill_core::workflow::Json::null()).start().await;
    assert!(unknown.unwrap_err().to_string().contains("workflow \"a/b\""));
}

#[tokio::test]
async fn the_id_of_another_workflows_run_is_refused_and_a_key_is_none_of_its_business() {
    const OTHER: Workflow<String, String> = Workflow::new("other");
    let world = World::new().await;
    let first = world.client.workflow(&MAIN, 1).id("order-7").start().await.unwrap();
    let other = || world.client.workflow(&OTHER, "x".to_owned());
    let error = other().id("order-7").start().await.unwrap_err();
    assert_eq!(error.to_string(), "run `order-7` is one of workflow `main`: give the new run another id");
    assert!(matches!(&error, RunError::OtherWorkflow { run, .. } if run == first.id()));
    start(&world).start().await.unwrap();
    assert!(other().key("order-7").start().await.unwrap().created());
}
