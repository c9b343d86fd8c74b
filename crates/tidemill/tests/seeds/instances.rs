//! A run's state, its events with the cursor, timers, and one task however many events there are.

use serde_json::{Value, json};
use tidemill::workflow::RunHandle;
use tidemill::workflow::StartWorkflows;
use tidemill::{Queue, QueueName};

use crate::world::{APPROVALS, APPROVE, ORDERS, World, message, number, patiently};

/// A run that waits for approvals, and no worker.
async fn parked(world: &World) -> RunHandle<u64> {
    let working = world.start();
    let run = world.client.workflow(&ORDERS, 7).start().await.unwrap();
    world.until("the timer", || world.ask("ZCARD timers") == 1).await;
    working.stop().await;
    run
}

/// The events after the cursor: those of the next task.
fn pending_events(world: &World, run: &str) -> Vec<(u64, Value)> {
    let cursor = world.instance(run)["cursor"].as_u64().unwrap();
    let behind = world.ask(&format!("XRANGE events-{run} ({cursor}-18446744073709551615 +"));
    let entries = behind.as_array().unwrap().iter().map(message);
    let events = entries.filter(|(_, entry)| entry["commit"].is_null());
    events.map(|(id, entry)| (id.strip_suffix("-0").unwrap().parse().unwrap(), entry)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_a_run_is_json_from_its_start_to_its_end() {
    let world = World::new().await;
    let run = world.client.workflow(&ORDERS, 7).start().await.unwrap();
    let id = run.id().as_str();
    let state = world.instance(id);
    assert_eq!((&state["run"], &state["workflow"]), (&json!(id), &json!("orders")));
    assert_eq!((&state["status"], &state["cursor"]), (&json!("running"), &json!(0)));
    assert!(state["started_at"].as_u64().unwrap() > 0 && state["closed_at"].is_null(), "{state}");
    for _ in 0..APPROVALS {
        run.signal(&APPROVE, &1).await.unwrap();
    }
    let working = world.start();
    assert_eq!(patiently(run.wait()).await.unwrap(), 10);
    let state = world.instance(id);
    assert_eq!((&state["status"], &state["output"]), (&json!("completed"), &json!("10")));
    assert!(state["closed_at"].as_u64() >= state["started_at"].as_u64(), "{state}");
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_behind_the_cursor_come_with_the_next_task_of_which_there_is_one() {
    let world = World::new().await;
    let run = parked(&world).await;
    let id = run.id().as_str();
    assert_eq!(world.ask(&format!("TYPE events-{id}")), "stream");
    assert_eq!(pending_events(&world, id), []);
    assert_eq!(world.ask("XLEN workflow:orders"), 0, "there is nothing to do");

    for n in 1..=20 {
        run.signal_untyped("approve", number(n)).await.unwrap();
        assert_eq!(world.ask("XLEN workflow:orders"), 1, "one task after {n} events");
    }
    let events = pending_events(&world, id);
    let payloads: Vec<_> = events.iter().map(|(_, entry)| &entry["event"]["signal"]["payload"]).collect();
    assert_eq!(json!(payloads), json!((1..=20).collect::<Vec<_>>()));
    let (entry, task) = world.only("workflow:orders");
    assert_eq!(task["cursor"], world.instance(id)["cursor"]);
    assert_eq!(
        (&task["news"][0]["position"], &task["news"][0]["entry"]),
        (&json!(events[0].0), &events[0].1)
    );
    // The index that makes the task unique.
    assert_eq!(world.ask(&format!("HGET jobs {id}!task")), format!("s workflow/orders {entry}"));

    let working = world.start();
    assert_eq!(patiently(run.wait()).await.unwrap(), 7 + 1 + 2 + 3);
    // The run ended with the third event: later events were never executed.
    assert_eq!(world.instance(id)["cursor"], events[2].0);
    assert_eq!(pending_events(&world, id), events[3..]);
    assert_eq!(world.ask(&format!("HEXISTS jobs {id}!task")), 0);
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_is_in_a_sorted_set_until_it_is_due_and_then_an_event() {
    let world = World::new().await;
    let run = parked(&world).await;
    let id = run.id().as_str();
    assert_eq!(world.ask("TYPE timers"), "zset");
    let timers = world.ask("ZRANGE timers 0 -1 WITHSCORES");
    let (timer, due) = (timers[0].as_str().unwrap(), timers[1].as_str().unwrap().parse::<u64>().unwrap());
    assert!(timer.starts_with(&format!("{id} ")), "{timer}");
    assert!(due > world.instance(id)["started_at"].as_u64().unwrap() + 3_590_000, "{due}");
    assert_eq!(world.ask(&format!("ZRANGEBYSCORE timers -inf {}", due - 1)), json!([]), "none is ready");

    assert_eq!(world.ask_words(&["ZADD", "timers", "XX", "CH", "1", timer]), 1, "an hour later");
    let working = world.start();
    assert_eq!(patiently(run.wait()).await.unwrap(), 0);
    assert_eq!(world.ask("EXISTS timers"), 0);
    let journal = world.ask(&format!("XRANGE events-{id} - +"));
    let fired = journal.as_array().unwrap().iter().map(message);
    assert_eq!(fired.filter(|(_, entry)| !entry["event"]["timer_fired"].is_null()).count(), 1);
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn activities_are_tasks_of_a_queue_of_their_own() {
    let world = World::new().await;
    world.prepare().await;
    let run = world.client.workflow(&ORDERS, 7).start().await.unwrap();
    let activities = Queue::at_least_once(QueueName::new("activities").unwrap());
    world.client.store().pause(&activities).await.unwrap();
    let working = world.start();
    world.until("the activity", || world.ask("XLEN stream:activities") == 1).await;
    let (_, job) = world.only("stream:activities");
    assert_eq!((&job["task_type"], &job["payload"]), (&json!("charge"), &json!(7)));
    assert!(job["job_id"].as_str().unwrap().starts_with(run.id().as_str()), "{job}");
    working.stop().await;
}
