//! A job's life as seen from the command line.

use crate::place::Place;

#[test]
fn a_job_is_enqueued_run_and_shown_with_its_output() {
    let place = Place::new();
    let id = place.ok(&["enqueue", "greet", "--payload", r#"{"name":"Ada"}"#, "--keep-result", "10m"]);
    assert_eq!(place.json(&["job", "show", &id])[0]["state"], "ready");
    place.ok(&["worker", "--exec", "greet=echo '{\"hello\":true}'", "--drain"]);
    let job = &place.json(&["job", "show", &id])[0];
    assert_eq!((&job["state"], &job["output"]), (&"done".into(), &serde_json::json!({"hello": true})));
    assert_eq!(place.ok(&["job", "wait", &id]), r#"{"hello":true}"#);
    assert!(place.ok(&["job", "show", &id]).contains("output  {\"hello\":true}"));
}

#[test]
fn a_job_that_ended_without_keeping_its_result_is_forgotten() {
    let place = Place::new();
    let id = place.ok(&["enqueue", "greet"]);
    place.ok(&["worker", "--exec", "*=true", "--drain"]);
    let run = place.run(&["job", "show", &id]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.starts_with(&format!("error: job {id} not found\nhint: ")), "{run:?}");
}

#[test]
fn enqueue_can_wait_for_the_output() {
    let place = Place::new();
    let _worker = place.start(&["worker", "--exec", "greet=echo hello", "--exec", "die=exit 65"]);
    let run = place.run(&["enqueue", "greet", "--wait", "50s"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "\"hello\"\n"), "{run:?}");
    let run = place.run(&["enqueue", "die", "--wait", "50s"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run:?}");
    assert!(run.stderr.contains("is dead (rejected)"), "{run:?}");
}

#[test]
fn a_wait_ends_when_its_time_is_over() {
    let place = Place::new();
    let run = place.run(&["enqueue", "greet", "--wait", "10ms"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("has not ended yet"), "{run:?}");
}

#[test]
fn many_jobs_are_made_at_once_and_all_run() {
    let place = Place::new();
    for (count, lines) in [("7", 7), ("1500", 1500)] {
        let ids = place.ok(&["enqueue", "tick", "--count", count]);
        assert_eq!(ids.lines().collect::<std::collections::HashSet<_>>().len(), lines);
    }
    let queue = &place.json(&["queue", "list"])[0];
    assert_eq!((&queue["name"], &queue["ready"]), (&"default".into(), &1507.into()));
}

#[test]
fn one_id_is_one_job() {
    let place = Place::new();
    for created in [true, false] {
        let made = &place.json(&["enqueue", "greet", "--id", "order-17"])[0];
        assert_eq!((&made["job"], &made["created"]), (&"order-17".into(), &created.into()));
    }
    assert_eq!(place.json(&["queue", "show", "default"])[0]["ready"], 1);
}

#[test]
fn jobs_wait_for_their_time_and_one_that_is_past_runs_now() {
    let place = Place::new();
    place.ok(&["enqueue", "late", "--delay", "1h", "--id", "a"]);
    place.ok(&["enqueue", "late", "--at", "+2d", "--id", "b"]);
    place.ok(&["enqueue", "late", "--at", "2001-01-01T00:00:00Z", "--id", "c"]);
    let states = |state| {
        let jobs = place.json(&["job", "list", "--state", state]);
        jobs.iter().map(|job| job["job"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((states("scheduled"), states("ready")), (vec!["a".into(), "b".into()], vec!["c".to_owned()]));
    let list = place.ok(&["job", "list"]);
    assert!(list.contains("in 59m") && list.contains("in 1d"), "{list}");
}

#[test]
fn a_drain_waits_for_jobs_that_are_scheduled() {
    let place = Place::new();
    place.ok(&["enqueue", "late", "--delay", "300ms"]);
    place.ok(&["worker", "--exec", "*=touch ran", "--drain"]);
    assert!(place.path("ran").exists());
}

#[test]
fn a_payload_comes_from_a_file_or_from_stdin() {
    let place = Place::new();
    place.write("payload.json", "{\n \"from\": \"file\"\n}\n");
    place.ok(&["enqueue", "a", "--payload", "@payload.json", "--id", "a"]);
    let run = place.pipe("[1, 2.50]", &["enqueue", "b", "--payload", "-", "--id", "b"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let payload = |id| place.json(&["job", "show", id])[0]["envelope"]["payload"].clone();
    assert_eq!(payload("a"), serde_json::json!({"from": "file"}));
    assert!(place.ok(&["job", "show", "b"]).contains("[1, 2.50]"));
}

#[test]
fn a_queue_is_paused_resumed_and_purged() {
    let place = Place::new();
    place.ok(&["enqueue", "a", "--queue", "mail", "--count", "3"]);
    assert_eq!(place.ok(&["queue", "pause", "mail"]), "queue mail paused");
    place.ok(&["worker", "--queue", "mail", "--exec", "*=touch ran", "--drain"]);
    assert!(!place.path("ran").exists());
    assert!(place.ok(&["queue", "show", "mail"]).contains("paused"));
    place.ok(&["queue", "resume", "mail"]);
    assert_eq!(place.ok(&["queue", "purge", "mail", "--yes"]), "queue mail purged: 3 jobs deleted");
    assert_eq!(place.json(&["queue", "show", "mail"])[0]["ready"], 0);
}

#[test]
fn a_name_finds_the_only_queue_there_is() {
    let place = Place::new();
    place.ok(&["enqueue", "ping", "--queue", "pings", "--at-most-once"]);
    assert_eq!(place.json(&["queue", "show", "pings"])[0]["delivery"], "at_most_once");
    assert_eq!(place.ok(&["queue", "pause", "pings"]), "queue pings (at most once) paused");
    place.ok(&["queue", "resume", "pings"]);
    place.ok(&["worker", "--at-most-once", "pings", "--exec", "*=touch ran", "--drain"]);
    assert!(place.path("ran").exists());
}

#[test]
fn waiting_jobs_are_cancelled_and_unknown_ones_are_not() {
    let place = Place::new();
    place.ok(&["enqueue", "a", "--id", "one"]);
    let run = place.run(&["job", "cancel", "one", "two"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), "one cancelled\ntwo not found\n"));
    assert_eq!(place.ok(&["job", "list"]), "there are no such jobs");
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let place = Place::new();
    place.write("tidemill.toml", "store = 'sqlite:file.db'\n");
    place.ok(&["enqueue", "a"]);
    assert_eq!(place.run_with(&[("TIDEMILL_STORE", "sqlite:env.db")], &["enqueue", "a"]).code, Some(0));
    let flag = place
        .run_with(&[("TIDEMILL_STORE", "sqlite:env.db")], &["enqueue", "a", "--store", "sqlite:flag.db"]);
    assert_eq!(flag.code, Some(0));
    let databases: Vec<_> = place.files().into_iter().filter(|name| name.ends_with(".db")).collect();
    assert_eq!(databases, ["env.db", "file.db", "flag.db"]);
}
