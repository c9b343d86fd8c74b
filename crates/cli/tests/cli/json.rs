//! `--json`: every command prints objects, one a line, and nothing else.

use crate::place::Place;

#[test]
fn every_command_prints_json_if_asked_to() {
    let place = Place::new();
    let made = place.json(&["enqueue", "greet", "--count", "2", "--keep-result", "1h"]);
    let (first, second) = (made[0]["job"].as_str().unwrap(), made[1]["job"].as_str().unwrap());
    assert_eq!(place.json(&["job", "list"]).len(), 2);
    assert_eq!(place.json(&["job", "cancel", second])[0]["result"], "cancelled");
    let ran = place.json(&["worker", "--exec", "*=echo hi", "--drain", "-v"]);
    assert_eq!((&ran[0]["event"], &ran[1]["event"]), (&"done".into(), &"ended".into()));
    assert_eq!(place.json(&["job", "wait", first])[0]["output"], "hi");
    assert_eq!(place.json(&["job", "show", first])[0]["state"], "done");

    place.json(&["enqueue", "die", "--id", "d"]);
    place.json(&["worker", "--exec", "*=exit 65", "--drain"]);
    assert_eq!(place.json(&["dlq", "list"])[0]["reason"], "rejected");
    assert_eq!(place.json(&["dlq", "show", "d"])[0]["envelope"]["dlq_reason"], "rejected");
    assert_eq!(place.json(&["dlq", "redrive", "d"])[0]["jobs"], 1);
    assert_eq!(place.json(&["dlq", "drop", "--all", "--yes"])[0]["jobs"], 0);

    assert_eq!(place.json(&["queue", "list"])[0]["name"], "default");
    assert_eq!(place.json(&["queue", "pause", "default"])[0]["result"], "paused");
    assert_eq!(place.json(&["queue", "show", "default"])[0]["paused"], true);
    assert_eq!(place.json(&["queue", "resume", "default"])[0]["result"], "resumed");
    assert_eq!(place.json(&["queue", "purge", "default", "--yes"])[0]["jobs"], 1);
    assert_eq!(place.json(&["doctor"])[0]["durability"], "fsync");
}

#[test]
fn doctor_finds_a_new_store_in_order() {
    let place = Place::new();
    place.ok(&["enqueue", "greet"]);
    let report = place.ok(&["doctor"]);
    assert!(report.contains("durability  fsync: an acknowledged job is on disk"), "{report}");
    assert!(report.lines().skip(4).all(|line| line.starts_with("ok ")), "{report}");
}
