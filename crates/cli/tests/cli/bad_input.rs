//! What is wrong gets a clear message and the right exit code, and changes nothing.

use std::fmt::Write as _;

use tidemill_testkit::servers::Redis;

use crate::place::Place;

const HUGE: &str = "huge.json";

#[test]
fn a_wrong_password_for_wake_ups_is_named_as_such() {
    let (place, redis) = (Place::new(), Redis::start().unwrap());
    redis.command(&["CONFIG", "SET", "requirepass", "right"]).unwrap();
    let wake = redis.url().replacen("redis://", "redis://:hunter2@", 1);
    let run = place.run(&["enqueue", "ok", "--wake", &wake]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let said = "error: access denied: the Redis server of wake-ups (--wake): ";
    assert!(run.stderr.starts_with(said) && !run.stderr.contains("hunter2"), "{run:?}");
}

#[test]
fn wrong_input_is_refused_and_writes_nothing() {
    let cases: &[&[&str]] = &[
        &["enqueue", "a b"],
        &["enqueue", "ok", "--queue", "a:b"],
        &["enqueue", "ok", "--id", "a b"],
        &["enqueue", "ok", "--id", "order-7!3"],
        &["enqueue", "ok", "--payload", "{\"half\":"],
        &["enqueue", "ok", "--payload", "text"],
        &["enqueue", "ok", "--payload", "@missing.json"],
        &["enqueue", "ok", "--payload", "@huge.json"],
        &["enqueue", "ok", "--payload", "[1,2,3]", "--max-payload", "4"],
        &["workflow", "start", "ok", "--input", "[1,2,3]", "--max-payload", "4"],
        &["workflow", "signal", "run", "ok", "--payload", "[1,2,3]", "--max-payload", "4"],
        &["chain", "complete", "ok", "--output", "[1,2,3]", "--max-payload", "4"],
        &["enqueue", "ok", "--delay", "36501d"],
        &["enqueue", "ok", "--at", "2200-01-01T00:00:00Z"],
        &["enqueue", "ok", "--at", "tomorrow"],
        &["enqueue", "ok", "--at", "9999-12-31T23:59:59Z"],
        &["enqueue", "ok", "--log-format", "xml"],
        &["enqueue", "ok", "--delay", "5"],
        &["enqueue", "ok", "--delay", "5m", "--at", "+5m"],
        &["enqueue", "ok", "--max-attempts", "0"],
        &["enqueue", "ok", "--count", "0"],
        &["enqueue"],
        &["frobnicate"],
        &["worker"],
        &["worker", "--exec", "cat"],
        &["worker", "--exec", "a b=cat"],
        &["worker", "--queue", "mail=0", "--exec", "*=cat"],
        &["worker", "--exec", "*=cat", "--lease", "1ms"],
        &["worker", "--exec", "a=cat", "--exec", "a=tac"],
        &["worker", "--queue", "a", "--queue", "a", "--exec", "*=cat"],
        &["browser", "--engine", "netscape"],
        &["browser", "--binary", "missing/browser"],
        &["browser", "--command", "true", "--binary", "missing/browser"],
        &["browser", "--command", "true", "--kind", "a b"],
        &["browser", "--kind", "webkit"],
        &["browser", "--spare", "0"],
        &["browser", "--spare", "3", "--most", "2"],
        &["browser", "--playwright", "missing"],
        &["browser", "--listen", "127.0.0.1:0"],
        &["job", "list", "--state", "gone"],
        &["job", "list", "--state", "done"],
        &["job", "cancel", "order-7!task"],
        &["dlq", "redrive"],
        &["dlq", "drop"],
        &["dlq", "redrive", "--all", "--kind", "a"],
        &["enqueue", "ok", "--store", "mysql://root:hunter2@db"],
        &["enqueue", "ok", "--store", "sqlite:"],
        &["enqueue", "ok", "--store", "sqlite::memory:"],
        &["queue", "list", "--store", "sqlite::memory:"],
        &["enqueue", "ok", "--store", "sqlite:no/such/directory/app.db"],
        &["enqueue", "ok", "--namespace", "a:"],
        &["enqueue", "ok", "--wake", "nats://root:hunter2@db"],
        &["enqueue", "ok", "--wake", "listen"],
        &["enqueue", "ok", "--store", "redis://:hunter2@:x"],
        &["enqueue", "ok", "--store", "redis://127.0.0.1:1", "--wake", "redis://127.0.0.1:1"],
        &["enqueue", "ok", "--group", "a b"],
        &["enqueue", "ok", "--store", "redis://:hunter2@127.0.0.1:1?shards=0"],
        &["enqueue", "ok", "--store", "postgres://u:hunter2@127.0.0.1:1/db?schema=A"],
    ];
    let place = Place::new();
    place.write(HUGE, &format!("\"{}\"", "x".repeat(1 << 20)));
    let mut said = String::new();
    for case in cases {
        let run = place.run(case);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{case:?}: {run:?}");
        let first =
            run.stderr.lines().filter(|line| line.starts_with("error: ") || line.starts_with("hint: "));
        let _ = writeln!(said, "$ tidemill {}\n{}\n", case.join(" "), first.collect::<Vec<_>>().join("\n"));
    }
    insta::assert_snapshot!("wrong_use", said);
    // A worker is checked when it is built, and by then its store is open.
    let left: Vec<_> = place.files().into_iter().filter(|name| name != HUGE).collect();
    assert!(left.iter().all(|name| name.starts_with("tidemill.db")), "{left:?}");
    if !left.is_empty() {
        assert!(
            place.json(&["queue", "list"]).iter().all(|queue| queue["ready"] == 0 && queue["scheduled"] == 0)
        );
    }
}

#[test]
fn what_cannot_be_done_fails_and_never_shows_a_password() {
    let cases: &[&[&str]] = &[
        &["queue", "list"],
        &["job", "show", "nope"],
        &["enqueue", "ok", "--store", "redis://user:hunter2@127.0.0.1:1"],
        &["enqueue", "ok", "--store", "postgres://user:hunter2@127.0.0.1:1/db"],
    ];
    let place = Place::new();
    let mut said = String::new();
    for case in cases {
        let run = place.run(case);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{case:?}: {run:?}");
        assert!(!run.stderr.contains("hunter2"), "{run:?}");
        let _ = writeln!(said, "$ tidemill {}\n{}", case.join(" "), run.stderr);
    }
    insta::assert_snapshot!("failed", said);
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn a_question_to_a_store_that_has_no_answer_fails() {
    let place = Place::new();
    place.ok(&["enqueue", "ok", "--id", "here"]);
    let cases: &[&[&str]] = &[
        &["job", "show", "nope"],
        &["job", "wait", "nope"],
        &["queue", "show", "nope"],
        &["queue", "purge", "default"],
        &["dlq", "show", "here"],
        &["dlq", "list", "--queue", "nope"],
        &["dlq", "redrive", "here"],
    ];
    let mut said = String::new();
    for case in cases {
        let run = place.run(case);
        assert_ne!(run.code, Some(0), "{case:?}: {run:?}");
        let _ = writeln!(said, "$ tidemill {}\n{}{}", case.join(" "), run.stdout, run.stderr);
    }
    insta::assert_snapshot!("no_answer", said);
    assert_eq!(place.json(&["queue", "show", "default"])[0]["ready"], 1);
}

#[test]
fn a_mistake_in_the_settings_file_is_found_before_anything_is_done() {
    let place = Place::new();
    place.write("tidemill.toml", "stores = 'sqlite:a.db'\n");
    let run = place.run(&["enqueue", "ok"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.starts_with("error: tidemill.toml, line 1: unknown field `stores`"), "{run:?}");
    assert_eq!(place.files(), ["tidemill.toml"]);
}

#[test]
fn a_wake_server_that_is_away_fails_nothing_and_the_doctor_says_so() {
    let place = Place::new();
    let away = [("TIDEMILL_WAKE", "redis://user:hunter2@127.0.0.1:1")];
    let run = place.run_with(&away, &["enqueue", "ok"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let doctor = place.run_with(&away, &["doctor"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    assert!(doctor.stdout.contains("redis://127.0.0.1:1"), "{doctor:?}");
    assert!(doctor.stdout.contains("does not answer: work is found by looking alone"), "{doctor:?}");
    for run in [run, doctor] {
        assert!(!run.stdout.contains("hunter2") && !run.stderr.contains("hunter2"), "{run:?}");
    }
}
