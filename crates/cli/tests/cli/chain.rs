//! Chains from the command line.

use crate::place::Place;

const CONTINUE: &str = r#"reserve=echo '{"kind":"ship","payload":{"order":7}}'; exit 10"#;

#[test]
fn a_chain_is_started_once_continued_by_a_program_and_waited_for() {
    let place = Place::new();
    let start = ["chain", "start", "reserve", "--dedup", "order-7"];
    let id = place.ok(&start);
    assert_eq!(place.ok(&start), id);
    let again = place.run(&start).stderr;
    assert_eq!(again, format!("no job was created: chain {id} with key order-7 exists already\n"));
    place.ok(&["chain", "start", "bill", "--id", "bill-7", "--after", &id]);
    let bill = &place.json(&["chain", "show", "bill-7"])[0];
    assert_eq!((&bill["state"], &bill["waits_for"][0]), (&"blocked".into(), &id.as_str().into()));
    assert_eq!(place.json(&["queue", "list"])[0]["blocked"], 1);
    let report = r#"bill=grep -o '"output":"shipped"'"#;
    place.ok(&["worker", "--exec", CONTINUE, "--exec", "ship=echo shipped", "--exec", report, "--drain"]);
    assert_eq!(place.ok(&["chain", "wait", &id]), "\"shipped\"");
    assert_eq!(place.ok(&["chain", "wait", "bill-7"]), r#""\"output\":\"shipped\"""#);
}

#[test]
fn a_chain_is_completed_from_outside_and_deleted() {
    let place = Place::new();
    place.ok(&["chain", "start", "approve", "--queue", "approvals", "--id", "a"]);
    place.ok(&["chain", "start", "later", "--id", "b", "--after", "a"]);
    let again = place.run(&["enqueue", "later", "--id", "b"]).stderr;
    assert_eq!(again, "no job was created: job b exists already\n");
    let refused = place.run(&["chain", "delete", "a"]);
    assert_eq!(
        (refused.code, refused.stdout.as_str()),
        (Some(1), "a is not deleted: b waits for it\n"),
        "{refused:?}"
    );
    let wrong = place.run(&["chain", "complete", "a", "--kind", "reject"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("job a is a `approve`, not a `reject`"), "{wrong:?}");
    place.ok(&["chain", "complete", "a", "--kind", "approve", "--continue", "ship"]);
    assert_eq!(place.json(&["chain", "show", "a"])[0]["job"], "a~1");
    place.ok(&["chain", "complete", "a~1", "--output", "7"]);
    assert_eq!(place.ok(&["chain", "wait", "a"]), "7");
    assert_eq!(place.json(&["chain", "show", "b"])[0]["state"], "ready");
    assert_eq!(place.ok(&["chain", "delete", "a", "b"]), "a deleted\nb deleted");
    assert_eq!(place.run(&["chain", "delete", "a"]).code, Some(1));
    let missing = place.run(&["chain", "start", "x", "--after", "nope"]);
    assert!(missing.stderr.contains("chain nope not found"), "{missing:?}");
}
