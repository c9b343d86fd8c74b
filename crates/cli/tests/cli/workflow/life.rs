//! From the start of a run to its end, in every way it can end.

use serde_json::{Value, json};

use super::worker::Crew;
use crate::place::{Place, until};

/// What the run is waiting for, once it waits for nothing but its code's own business.
fn parked(place: &Place, run: &str) -> Value {
    let show = || place.json(&["workflow", "show", run]).remove(0);
    until("the run to wait", || show()["why"] == "waits" && show()["entries"].as_u64() >= Some(4));
    show()
}

#[test]
fn a_run_is_started_asked_changed_signalled_and_waited_for() {
    let place = Place::new();
    let crew = Crew::start(&place);
    assert_eq!(place.ok(&["workflow", "start", "order", "--input", "99", "--id", "order-7"]), "order-7");
    parked(&place, "order-7");
    assert_eq!(place.ok(&["workflow", "query", "order-7", "status"]), "\"waiting for approval\"");
    let update = |limit| place.run(&["workflow", "update", "order-7", "set_limit", "--payload", limit]);
    assert_eq!(update("100").stdout, "100\n");
    let refused = update("50");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
    assert_eq!(refused.stderr, "error: run `order-7` refused the update: the limit is 100 already\n");
    let sent = place.ok(&["workflow", "signal", "order-7", "approve", "--payload", "\"ann\""]);
    assert_eq!(sent, "signal approve sent to order-7");
    let output = "\"receipt for 99, approved by ann\"";
    assert_eq!(place.ok(&["workflow", "wait", "order-7", "--timeout", "50s"]), output);
    assert_eq!(place.ok(&["workflow", "query", "order-7", "status"]), "\"waiting for approval\"");
    crew.stop();
}

#[test]
fn starting_twice_with_a_key_is_one_run_unless_it_is_to_be_another() {
    let place = Place::new();
    let start = |more: &[&str]| {
        let args = ["workflow", "start", "order", "--input", "1", "--key", "order-7"];
        place.run(&[&args, more].concat())
    };
    let first = start(&[]).stdout;
    assert_eq!(start(&[]).stdout, first);
    let again = &place.json(&["workflow", "start", "order", "--input", "1", "--key", "order-7"])[0];
    assert_eq!(*again, json!({ "run": first.trim(), "created": false }));
    let rejected = start(&["--on-conflict", "reject"]);
    assert_eq!((rejected.code, rejected.stdout.as_str()), (Some(1), ""));
    assert_eq!(rejected.stderr, format!("error: run `{}` is there already\n", first.trim()));
    assert_eq!(start(&["--on-conflict", "start-after-close"]).stdout, first, "it is open");
    let second = start(&["--on-conflict", "terminate-existing"]).stdout;
    assert_ne!(second, first);
    assert_eq!(place.json(&["workflow", "show", first.trim()])[0]["status"], "terminated");
    place.ok(&["workflow", "terminate", second.trim()]);
    assert_eq!(start(&[]).stdout, second, "open or closed, it has the key");
    assert_ne!(start(&["--on-conflict", "start-after-close"]).stdout, second);
}

#[test]
fn start_can_wait_for_the_output_or_the_failure() {
    let place = Place::new();
    let crew = Crew::start(&place);
    let start =
        |input| place.run(&["workflow", "start", "steps", "--input", input, "--id", input, "--wait", "50s"]);
    let run = start("7");
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "26\n"), "{run:?}");
    let run = start("13");
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run:?}");
    assert_eq!(run.stderr, "error: run `13` failed: thirteen brings bad luck\n");
    crew.stop();
    let run = place.run(&["workflow", "start", "steps", "--input", "1", "--id", "late", "--wait", "10ms"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.starts_with("error: run `late` has given no result within 10ms"), "{run:?}");
}

#[test]
fn runs_are_cancelled_and_terminated_with_a_reason() {
    let place = Place::new();
    let crew = Crew::start(&place);
    for run in ["a", "b"] {
        place.ok(&["workflow", "start", "order", "--input", "1", "--id", run]);
        parked(&place, run);
    }
    let cancel = place.ok(&["workflow", "cancel", "a", "--reason", "ordered twice"]);
    assert_eq!(cancel, "a is asked to end");
    let waited = place.run(&["workflow", "wait", "a", "--timeout", "50s"]);
    assert_eq!(
        (waited.code, waited.stderr.as_str()),
        (Some(1), "error: run `a` was cancelled\n"),
        "{waited:?}"
    );
    assert!(place.ok(&["workflow", "show", "a"]).contains("ordered twice"));
    assert_eq!(place.ok(&["workflow", "terminate", "b", "--reason", "runs amok"]), "b terminated");
    let waited = place.run(&["workflow", "wait", "b"]);
    assert_eq!(waited.stderr, "error: run `b` was terminated: runs amok\n");
    let again = place.run(&["workflow", "terminate", "a", "b", "c"]);
    let said = "a had ended already: cancelled\nb had ended already: terminated\nc not found\n";
    assert_eq!((again.code, again.stdout.as_str()), (Some(1), said), "{again:?}");
    crew.stop();
}

#[test]
fn every_command_prints_json_if_asked_to() {
    let place = Place::new();
    let crew = Crew::start(&place);
    let started = place.json(&["workflow", "start", "order", "--input", "5", "--id", "o"]);
    assert_eq!(started, [json!({ "run": "o", "created": true })]);
    let shown = parked(&place, "o");
    assert_eq!(
        (&shown["run"], &shown["status"], &shown["why"]),
        (&json!("o"), &json!("running"), &json!("waits"))
    );
    assert_eq!(shown["attributes"], json!({ "city": "Kyiv" }));
    let asked = place.json(&["workflow", "query", "o", "status"]);
    let answer =
        json!({ "run": "o", "name": "status", "result": "answered", "output": "waiting for approval" });
    assert_eq!(asked, [answer]);
    let changed = place.json(&["workflow", "update", "o", "set_limit", "--payload", "3"]);
    assert_eq!(changed, [json!({ "run": "o", "name": "set_limit", "result": "answered", "output": 3 })]);
    let sent = place.json(&["workflow", "signal", "o", "approve", "--payload", "\"bo\""]);
    assert_eq!(sent, [json!({ "run": "o", "name": "approve", "result": "sent" })]);
    let waited = place.json(&["workflow", "wait", "o"]);
    assert_eq!(waited, [json!({ "run": "o", "output": "receipt for 5, approved by bo" })]);
    let listed = place.json(&["workflow", "list"]);
    assert_eq!((&listed[0]["status"], &listed[0]["output"]), (&json!("completed"), &waited[0]["output"]));
    let journal = place.json(&["workflow", "journal", "o"]);
    assert_eq!((&journal[0]["position"], &journal[0]["event"]["started"]["input"]), (&json!(1), &json!(5)));
    let reset = place.json(&["workflow", "reset", "o", "--to", "2"]).remove(0);
    assert_eq!((&reset["from"], &reset["position"]), (&json!("o"), &json!(2)));
    let run = reset["run"].as_str().unwrap();
    let ended = place.run(&["workflow", "cancel", "o", "--json"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), "{\"run\":\"o\",\"result\":\"ended\"}\n"));
    assert_eq!(
        place.json(&["workflow", "wait", run])[0]["output"],
        waited[0]["output"],
        "its signals came again"
    );
    place.ok(&["workflow", "start", "order", "--input", "5", "--version", "9", "--id", "p"]);
    let ended = place.json(&["workflow", "terminate", "p"]);
    assert_eq!(ended, [json!({ "run": "p", "result": "terminated" })]);
    crew.stop();
}
