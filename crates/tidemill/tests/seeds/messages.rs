//! Run messages: one stream per workflow type and route, in a format that any program reads and
//! writes.

use serde_json::{Value, json};
use tidemill::workflow::ListRunsParams;
use tidemill::workflow::{RunWorkflows, StartWorkflows};

use crate::world::{
    HELD, ORDERS, PROCESSING, Working, World, closed_gate, fact, message, open_gate, patiently,
};

fn run_message(id: &str) -> Value {
    json!({
        "id": id,
        "workflowName": "order-processing",
        "version": "1.0.0",
        "payload": { "orderId": "order-456", "amount": 99.99 },
        "idempotencyKey": "order-456-process",
        "createdAt": 1_234_567_890
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_named_by_its_workflow_and_route() {
    let world = World::new().await;
    let processing = |route: &str| world.client.workflow(&PROCESSING, json!({})).route(route);
    world.client.workflow(&ORDERS, 1).start().await.unwrap();
    world.client.workflow(&PROCESSING, json!({})).start().await.unwrap();
    for route in ["us-east", "eu-west", "eu-west"] {
        processing(route).start().await.unwrap();
    }
    for (stream, length) in [
        ("workflow:orders", 1),
        ("workflow:order-processing", 1),
        ("workflow:order-processing:us-east", 1),
        ("workflow:order-processing:eu-west", 2),
    ] {
        assert_eq!(world.ask(&format!("XLEN {stream}")), length, "{stream}");
        assert_eq!(world.ask(&format!("TYPE {stream}")), "stream", "{stream}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_reads_run_messages_as_they_are_described() {
    let world = World::new().await;
    world.prepare().await;
    let read =
        "XREADGROUP GROUP aiki-workers worker-1 BLOCK 1000 COUNT 10 STREAMS workflow:order-processing >";
    let input = json!({ "orderId": "order-456", "amount": 99.99 });
    for n in 0..12 {
        let key = format!("order-{n}-process");
        world.client.workflow(&PROCESSING, input.clone()).key(&key).start().await.unwrap();
    }
    let answer = world.ask(read);
    assert_eq!(answer[0][0], "workflow:order-processing");
    assert_eq!(answer[0][1].as_array().unwrap().len(), 10, "COUNT 10");
    let (_, run) = message(&answer[0][1][0]);
    assert!(run["id"].as_str().is_some_and(|id| !id.is_empty()), "{run}");
    assert_eq!((&run["workflowName"], &run["version"]), (&json!("order-processing"), &json!("1.0.0")));
    assert_eq!((&run["payload"], &run["idempotencyKey"]), (&input, &json!("order-0-process")));
    assert!(run["createdAt"].is_u64(), "{run}");
    assert_eq!(world.ask(read)[0][1].as_array().unwrap().len(), 2, "the rest");
    // Nothing is new: the read blocks for its second and returns nothing.
    assert_eq!(world.ask(read), Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_another_program_starts_a_run_and_is_acknowledged_when_that_ends() {
    let world = World::new().await;
    let working = world.start();
    world.publish("workflow:order-processing", &run_message("run-123"));
    let run = world.client.run_handle(&PROCESSING, "run-123".parse().unwrap());
    world.until("run-123", || world.ask("EXISTS instances-run-123") == 1).await;
    assert_eq!(patiently(run.wait()).await.unwrap(), "order-456 for 99.99");
    let idle = || {
        world.ask("XLEN workflow:order-processing") == 0
            && world.ask("XPENDING workflow:order-processing aiki-workers")[0] == 0
    };
    world.until("the acknowledgement", idle).await;

    // Processed again, from a copy or by another publisher: the run's key deduplicates it.
    world.publish("workflow:order-processing", &run_message("run-123"));
    world.publish("workflow:order-processing", &run_message("run-124"));
    world.until("the acknowledgement of copies", idle).await;
    let runs = world.client.runs(ListRunsParams { limit: 10, ..Default::default() }).await.unwrap();
    assert_eq!(runs.items.len(), 1, "{runs:?}");
    let again = world.client.workflow(&PROCESSING, json!({})).key("order-456-process").start().await.unwrap();
    assert_eq!((again.id().as_str(), again.created()), ("run-123", false));
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_in_the_stream_of_a_route_is_taken_by_workers_of_that_route() {
    let world = World::new().await;
    let elsewhere = world.start();
    world.publish("workflow:order-processing:eu-west", &run_message("run-eu"));
    let there = Working::start(world.worker(open_gate()).route("eu-west"));
    world.until("run-eu", || world.ask("EXISTS instances-run-eu") == 1).await;
    let run = world.client.run_handle(&PROCESSING, "run-eu".parse().unwrap());
    assert_eq!(patiently(run.wait()).await.unwrap(), "order-456 for 99.99");
    assert_eq!(world.instance("run-eu")["queue"], "workflow/order-processing/eu-west");
    assert_eq!(world.ask("EXISTS workflow:order-processing"), 1, "the others serve it");
    elsewhere.stop().await;
    there.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_monitor_asks_is_answered() {
    let (world, gate) = (World::new().await, closed_gate());
    world.prepare().await;
    let working = Working::start(world.worker(gate));
    let run = world.client.workflow(&HELD, 7).start().await.unwrap();
    let pending = || world.ask("XPENDING workflow:held aiki-workers");
    world.until("the task to run", || pending()[0] == 1).await;
    let summary = pending();
    let (entry, task) = world.only("workflow:held");
    assert_eq!(task["id"], run.id().as_str());
    assert_eq!((&summary[1], &summary[2]), (&json!(entry), &json!(entry)));
    let worker = summary[3][0][0].as_str().unwrap();
    assert_eq!(summary[3], json!([[worker, "1"]]));

    assert_eq!(world.ask("PING"), "PONG");
    assert_eq!(world.ask("XLEN workflow:held"), 1);
    let groups = world.ask("XINFO GROUPS workflow:held");
    assert_eq!(groups.as_array().unwrap().len(), 1);
    assert_eq!(fact(&groups[0], "name"), "aiki-workers");
    assert_eq!((fact(&groups[0], "consumers"), fact(&groups[0], "pending")), (&json!(1), &json!(1)));
    assert_eq!(*fact(&groups[0], "last-delivered-id"), entry);
    let consumers = world.ask("XINFO CONSUMERS workflow:held aiki-workers");
    assert_eq!(consumers.as_array().unwrap().len(), 1);
    assert_eq!((fact(&consumers[0], "name"), fact(&consumers[0], "pending")), (&json!(worker), &json!(1)));
    assert!(fact(&consumers[0], "idle").is_u64());

    gate.add_permits(1);
    assert_eq!(patiently(run.wait()).await.unwrap(), 7);
    assert_eq!((pending()[0].clone(), world.ask("XLEN workflow:held")), (json!(0), json!(0)));
    working.stop().await;
    assert_eq!(world.ask("XINFO CONSUMERS workflow:held aiki-workers"), json!([]), "it has left");
}
