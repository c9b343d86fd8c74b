//! Programs as handlers: what they get, and what their end means.

use serde_json::{Value, json};

use crate::place::{Place, is_alive, until};

/// Runs one job with `command` and returns it as it is shown afterwards.
fn ran(place: &Place, flags: &[&str], command: &str) -> Value {
    place.ok(&[&["enqueue", "work", "--id", "job", "--payload", r#"{"n":1}"#, "--keep-result", "1h"], flags]
        .concat());
    place.ok(&["worker", "--exec", &format!("work={command}"), "--drain"]);
    place.json(&["job", "show", "job"]).remove(0)
}

#[test]
fn a_program_gets_the_envelope_and_knows_its_job() {
    let place = Place::new();
    let job = ran(
        &place,
        &[],
        "cat > envelope; echo $TIDEMILL_JOB_ID $TIDEMILL_KIND $TIDEMILL_QUEUE $TIDEMILL_ATTEMPT",
    );
    assert_eq!(job["output"], "job work default 1");
    let envelope: Value = serde_json::from_str(&place.read("envelope")).unwrap();
    assert_eq!((&envelope["job_id"], &envelope["payload"]), (&json!("job"), &json!({"n": 1})));
}

#[test]
fn output_is_json_or_a_text() {
    for (command, output) in
        [("echo '[1,2]'", json!([1, 2])), ("echo so so", json!("so so")), ("true", json!(null))]
    {
        assert_eq!(ran(&Place::new(), &[], command)["output"], output, "{command}");
    }
}

#[test]
fn exit_code_65_is_dead_with_the_last_line_as_its_reason() {
    let job = ran(&Place::new(), &[], "echo first >&2; echo no such customer >&2; exit 65");
    assert_eq!((&job["state"], &job["reason"]), (&json!("dead"), &json!("no such customer")));
    assert_eq!((&job["last_error"], &job["attempts"]), (&json!("first\nno such customer"), &json!(1)));
    assert_eq!(ran(&Place::new(), &[], "exit 65")["reason"], "rejected");
}

#[test]
fn every_other_end_is_tried_again() {
    let twice = "echo $TIDEMILL_ATTEMPT >> attempts; [ $TIDEMILL_ATTEMPT = 2 ] || exit 7; echo ok";
    let place = Place::new();
    assert_eq!(ran(&place, &[], twice)["output"], "ok");
    assert_eq!(place.read("attempts"), "1\n2\n");
}

#[test]
fn a_signal_is_a_failed_attempt_and_says_which() {
    let job = ran(&Place::new(), &["--max-attempts", "1"], "kill -9 $$");
    assert_eq!(job["reason"], "max_attempts_exceeded");
    assert_eq!(job["last_error"], "the program was killed by signal 9");
}

#[test]
fn a_program_that_talks_without_end_is_neither_blocked_nor_kept() {
    let loud = "head -c 5000000 /dev/zero | tr '\\0' e >&2; head -c 3000000 /dev/zero; exit 1";
    let job = ran(&Place::new(), &["--max-attempts", "1"], loud);
    let error = job["last_error"].as_str().unwrap();
    assert!(error.len() <= 4096 && error.ends_with("ee"), "{}", error.len());
    let job = ran(&Place::new(), &[], "head -c 3000000 /dev/zero");
    assert_eq!((&job["state"], &job["reason"]), (&json!("dead"), &json!("invalid_output")));
}

#[test]
fn a_program_that_ignores_its_input_is_not_held_up_by_it() {
    let place = Place::new();
    place.write("big.json", &format!("\"{}\"", "x".repeat(900_000)));
    place.ok(&["enqueue", "work", "--payload", "@big.json", "--id", "job", "--keep-result", "1h"]);
    place.ok(&["worker", "--exec", "*=exec <&-; echo done", "--drain"]);
    assert_eq!(place.json(&["job", "show", "job"])[0]["output"], "done");
}

#[test]
fn a_star_handles_what_no_other_program_does() {
    let place = Place::new();
    for kind in ["mail", "other"] {
        place.ok(&["enqueue", kind, "--keep-result", "1h", "--id", kind]);
    }
    place.ok(&["worker", "--exec", "*=echo any", "--exec", "mail=echo mail", "--drain"]);
    assert_eq!(place.json(&["job", "show", "mail"])[0]["output"], "mail");
    assert_eq!(place.json(&["job", "show", "other"])[0]["output"], "any");
}

/// Starts a process that would run for ever, in the background, and says which it and its parent are.
const FAMILY: &str = "sleep 1000 & echo $! > child; echo $$ > parent; mv child born; wait";

/// The same, and nobody in it heeds SIGTERM.
const DEAF_FAMILY: &str =
    "trap '' TERM; sleep 1000 & echo $! > child; echo $$ > parent; mv child born; while :; do wait; done";

fn assert_gone(place: &Place) {
    for name in ["parent", "born"] {
        let pid = place.read(name);
        until("the end of the program", || !is_alive(&pid));
    }
}

#[test]
fn a_timeout_ends_the_program_and_everything_it_started() {
    for family in [FAMILY, DEAF_FAMILY] {
        let place = Place::new();
        let job = ran(&place, &["--timeout", "1s", "--max-attempts", "1"], family);
        assert_eq!(job["last_error"], "the handler did not end within 1s");
        assert_gone(&place);
    }
}

#[test]
fn a_cancelled_job_ends_its_program_and_everything_it_started() {
    let place = Place::new();
    place.ok(&["enqueue", "work", "--id", "job", "--keep-result", "1h"]);
    let _worker = place.start(&["worker", "--lease", "1s", "--exec", &format!("work={FAMILY}")]);
    place.wait_for("born");
    assert_eq!(place.ok(&["job", "cancel", "job"]), "job is running and was told to stop");
    assert_gone(&place);
    until("the job's end", || place.json(&["job", "show", "job"])[0]["state"] == "cancelled");
}

#[test]
fn what_a_program_leaves_running_ends_with_its_job() {
    let place = Place::new();
    let job = ran(&place, &[], "sleep 1000 & echo $! > born; cp born parent; echo done");
    assert_eq!(job["output"], "done");
    assert_gone(&place);
}
