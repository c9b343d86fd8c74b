//! Dead workers: XPENDING shows what they held, and XCLAIM moves it to other consumers.

use std::time::Duration;

use serde_json::json;
use tidemill::workflow::StartWorkflows;

use crate::world::{APPROVE, HELD, ORDERS, Working, World, closed_gate, message, open_gate, patiently};

const READ: &str = "XREADGROUP GROUP aiki-workers worker-1 BLOCK 1000 COUNT 10 STREAMS workflow:orders >";

/// The default of the other system.
const MIN_IDLE: Duration = Duration::from_secs(60);

/// Ages an entry by a minute, whoever holds it.
fn let_a_minute_pass(world: &World, (stream, consumer, entry): (&str, &str, &str)) {
    let command = format!("XCLAIM {stream} aiki-workers {consumer} 0 {entry} IDLE 60001 JUSTID");
    assert_eq!(world.ask(&command), json!([entry]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_programs_dead_worker_is_found_and_its_message_claimed_by_another() {
    let world = World::new().await;
    world.prepare().await;
    let run = world.client.workflow(&ORDERS, 1).start().await.unwrap();
    let (entry, before) = message(&world.ask(READ)[0][1][0]);
    assert_eq!(
        world.ask("XPENDING workflow:orders aiki-workers"),
        json!([1, entry, entry, [["worker-1", "1"]]])
    );
    let all = world.ask("XPENDING workflow:orders aiki-workers - + 100");
    let idle = all[0][2].as_u64().unwrap();
    assert_eq!(all, json!([[entry, "worker-1", idle, 1]]));
    assert_eq!(
        world.ask("XPENDING workflow:orders aiki-workers - + 100 worker-1").as_array().unwrap().len(),
        1
    );
    assert_eq!(world.ask("XPENDING workflow:orders aiki-workers - + 100 worker-2"), json!([]));
    assert_eq!(world.ask("XPENDING workflow:orders aiki-workers IDLE 60000 - + 100"), json!([]));
    let claim = format!("XCLAIM workflow:orders aiki-workers worker-2 60000 {entry}");
    assert_eq!(world.ask(&claim), json!([]), "it may still be at work");

    let_a_minute_pass(&world, ("workflow:orders", "worker-1", &entry));
    let stuck = world.ask("XPENDING workflow:orders aiki-workers IDLE 60000 - + 100");
    assert_eq!((&stuck[0][0], &stuck[0][1]), (&json!(entry), &json!("worker-1")));
    let (claimed, again) = message(&world.ask(&claim)[0]);
    assert_eq!((claimed, again), (entry.clone(), before));
    let pending = world.ask("XPENDING workflow:orders aiki-workers - + 100");
    assert_eq!((&pending[0][1], &pending[0][3]), (&json!("worker-2"), &json!(2)), "delivered twice");

    // It gives the entry up for good; the run is not lost with its message.
    assert_eq!(world.ask(&format!("XACK workflow:orders aiki-workers {entry}")), 1);
    assert_eq!(world.ask("XPENDING workflow:orders aiki-workers")[0], 0);
    assert_eq!(world.ask(&format!("XDEL workflow:orders {entry}")), 1);
    for _ in 0..3 {
        run.signal(&APPROVE, &1).await.unwrap();
    }
    let working = world.start();
    assert_eq!(patiently(run.wait()).await.unwrap(), 4);
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_programs_dead_worker_held_is_carried_on_by_ours() {
    let world = World::new().await;
    world.prepare().await;
    let run = world.client.workflow(&HELD, 5).start().await.unwrap();
    let read = READ.replace("workflow:orders", "workflow:held");
    let (entry, _) = message(&world.ask(&read)[0][1][0]);
    let_a_minute_pass(&world, ("workflow:held", "worker-1", &entry));
    let worker =
        world.worker(open_gate()).claim_min_idle(MIN_IDLE).block(Duration::from_secs(1)).batch_size(10);
    let working = Working::start(worker);
    assert_eq!(patiently(run.wait()).await.unwrap(), 5);
    assert_eq!(world.ask("XPENDING workflow:held aiki-workers")[0], 0);
    assert_eq!(world.ask("XLEN workflow:held"), 0);
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_our_dead_worker_held_is_claimed_by_a_program_and_then_by_ours_again() {
    let world = World::new().await;
    world.prepare().await;
    let dying = Working::start(world.worker(closed_gate()));
    let run = world.client.workflow(&HELD, 5).start().await.unwrap();
    world.until("the task to run", || world.ask("XPENDING workflow:held aiki-workers")[0] == 1).await;
    dying.die().await;
    let pending = world.ask("XPENDING workflow:held aiki-workers - + 100");
    let (entry, dead) = (pending[0][0].as_str().unwrap(), pending[0][1].as_str().unwrap());
    assert_eq!((dead.matches(':').count(), &pending[0][3]), (3, &json!(1)), "host, process, index and boot");
    let_a_minute_pass(&world, ("workflow:held", dead, entry));
    let claimed = world.ask(&format!("XCLAIM workflow:held aiki-workers worker-2 60000 {entry}"));
    let (_, task) = message(&claimed[0]);
    assert_eq!((&task["id"], &task["payload"]), (&json!(run.id().as_str()), &json!(5)));

    // So does that one.
    let_a_minute_pass(&world, ("workflow:held", "worker-2", entry));
    let working = Working::start(world.worker(open_gate()).claim_min_idle(MIN_IDLE));
    assert_eq!(patiently(run.wait()).await.unwrap(), 5);
    assert_eq!(world.ask("XPENDING workflow:held aiki-workers")[0], 0);
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_a_program_took_from_a_living_worker_is_committed_once() {
    let (world, gate) = (World::new().await, closed_gate());
    world.prepare().await;
    let working = Working::start(world.worker(gate));
    let run = world.client.workflow(&HELD, 5).start().await.unwrap();
    world.until("the task to run", || world.ask("XPENDING workflow:held aiki-workers")[0] == 1).await;
    let (entry, _) = world.only("workflow:held");
    let healthy = format!("XCLAIM workflow:held aiki-workers worker-2 60000 {entry}");
    assert_eq!(world.ask(&healthy), json!([]), "a beating worker is not idle");
    assert_eq!(message(&world.ask(&healthy.replace(" 60000 ", " 0 "))[0]).0, entry);
    let_a_minute_pass(&world, ("workflow:held", "worker-2", &entry));
    gate.add_permits(10);
    assert_eq!(patiently(run.wait()).await.unwrap(), 5);
    working.stop().await;
    let journal = run.journal().await.unwrap();
    assert_eq!(journal.entries.len(), 2, "started, and one commit: {journal:?}");
    assert_eq!(world.ask("XLEN workflow:held"), 0);
}
