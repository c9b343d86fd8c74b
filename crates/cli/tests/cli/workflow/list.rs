//! Finding runs.

use super::worker::Crew;
use crate::place::Place;

/// The ids that a list has, in its order.
fn listed(place: &Place, filters: &[&str]) -> Vec<String> {
    let runs = place.json(&[&["workflow", "list"], filters].concat());
    runs.iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn runs_are_found_by_type_status_time_and_attribute() {
    let place = Place::new();
    let crew = Crew::start(&place);
    let start = |args: &[&str]| place.ok(&[&["workflow", "start"], args].concat());
    start(&["steps", "--input", "1", "--id", "done", "--attribute", "tier=gold", "--wait"]);
    assert_eq!(
        place.run(&["workflow", "start", "steps", "--input", "13", "--id", "bad", "--wait"]).code,
        Some(1)
    );
    start(&["order", "--input", "1", "--id", "open", "--attribute", "tier=\"gold\"", "--attribute", "n=7"]);
    crew.stop();

    let list = |filters: &[&str]| listed(&place, filters);
    assert_eq!(list(&[]), ["open", "bad", "done"], "the newest first");
    assert_eq!(list(&["--type", "steps"]), ["bad", "done"]);
    assert_eq!(list(&["--status", "running"]), ["open"]);
    assert_eq!(list(&["--type", "steps", "--status", "failed"]), ["bad"]);
    assert_eq!(list(&["--where", "tier=gold"]), ["open", "done"], "a text needs no quotes");
    assert_eq!(list(&["--where", "n=7"]), ["open"]);
    assert_eq!(list(&["--where", "n=\"7\""]), [""; 0], "a text is no number");
    assert_eq!(list(&["--since", "1h"]).len(), 3);
    assert_eq!(list(&["--since", "2100-01-01T00:00:00Z"]), [""; 0]);
    assert_eq!(list(&["--before", "1h"]), [""; 0]);
    assert_eq!(list(&["--before", "2100-01-01T00:00:00Z", "--limit", "2"]), ["open", "bad"]);

    let part = place.run(&["workflow", "list", "--limit", "2"]);
    assert_eq!((part.code, part.stderr.as_str()), (Some(0), "there are more; --limit shows them\n"));
    let text = part.stdout;
    assert!(text.starts_with("RUN "), "{text}");
    assert!(text.contains("failed") && text.contains("thirteen brings bad luck"), "{text}");
    assert_eq!(place.ok(&["workflow", "list", "--type", "nope"]), "there are no such runs");
}
