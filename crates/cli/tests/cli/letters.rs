//! The dead letters from the command line.

use crate::place::Place;

/// Three dead jobs: two of kind `mail`, one of kind `report`.
fn cemetery() -> Place {
    let place = Place::new();
    place.ok(&["enqueue", "mail", "--id", "m1"]);
    place.ok(&["enqueue", "mail", "--id", "m2", "--max-attempts", "1"]);
    place.ok(&["enqueue", "report", "--id", "r1", "--queue", "reports"]);
    let mail =
        "mail=[ $TIDEMILL_JOB_ID = m2 ] && { echo timeout >&2; exit 1; }; echo bad address >&2; exit 65";
    let report = "report=echo 'line 3 is broken' >&2; exit 65";
    place.ok(&[
        "worker", "--queue", "default", "--queue", "reports", "--exec", mail, "--exec", report, "--drain",
    ]);
    place
}

fn dead(place: &Place, filter: &[&str]) -> Vec<String> {
    let letters = place.json(&[&["dlq", "list"], filter].concat());
    let mut ids: Vec<_> = letters.iter().map(|letter| letter["job"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn letters_are_listed_by_what_they_died_of() {
    let place = cemetery();
    assert_eq!(dead(&place, &[]), ["m1", "m2", "r1"]);
    assert_eq!(dead(&place, &["--kind", "mail"]), ["m1", "m2"]);
    assert_eq!(dead(&place, &["--queue", "reports"]), ["r1"]);
    assert_eq!(dead(&place, &["--reason", "max_attempts_exceeded"]), ["m2"]);
    assert_eq!(dead(&place, &["--error", "address"]), ["m1"]);
    let table = place.ok(&["dlq", "list"]);
    assert!(table.starts_with("JOB  QUEUE    KIND    DIED") && table.contains("line 3 is broken"), "{table}");
    assert!(place.ok(&["dlq", "show", "m2"]).contains("last error  timeout"));
}

#[test]
fn letters_are_redriven_by_id_by_filter_and_all_but_never_by_accident() {
    let place = cemetery();
    let run = place.run(&["dlq", "redrive"]);
    assert_eq!((run.code, dead(&place, &[]).len()), (Some(2), 3));
    assert_eq!(place.ok(&["dlq", "redrive", "m1"]), "1 redriven");
    assert_eq!(place.json(&["job", "show", "m1"])[0]["attempts"], 0);
    assert_eq!(place.ok(&["dlq", "redrive", "--kind", "report"]), "1 redriven");
    assert_eq!(place.ok(&["dlq", "redrive", "--all"]), "1 redriven");
    place.ok(&["worker", "--queue", "default", "--queue", "reports", "--exec", "*=true", "--drain"]);
    assert!(dead(&place, &[]).is_empty());
}

#[test]
fn letters_are_dropped_for_good() {
    let place = cemetery();
    assert_eq!(place.ok(&["dlq", "drop", "--error", "address", "--yes"]), "1 dropped");
    assert_eq!(place.run(&["dlq", "drop", "m1", "--yes"]).code, Some(1));
    let run = place.run(&["dlq", "drop", "m2", "r1"]);
    assert_eq!((run.code, dead(&place, &[]).len()), (Some(2), 2), "nobody can be asked: {run:?}");
    assert_eq!(place.ok(&["dlq", "drop", "m2", "r1", "--yes"]), "2 dropped");
    assert_eq!(place.ok(&["dlq", "list"]), "there are no such dead letters");
    assert_eq!(place.ok(&["job", "list"]), "there are no such jobs");
}
