//! Results on stdout: a reader that stops reading stops no work, and stored data cannot drive the terminal.

use std::io::{BufRead, BufReader};

use tidemill_testkit::servers::Redis;

use crate::place::{Place, until};

#[test]
fn a_reader_that_closes_the_pipe_does_not_stop_an_enqueue() {
    let place = Place::new();
    let mut enqueue = place.start(&["enqueue", "tick", "--count", "5000"]);
    let mut stdout = BufReader::new(enqueue.0.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    assert_eq!(enqueue.code(), Some(0));
    assert_eq!(place.json(&["queue", "show", "default"])[0]["ready"], 5000);
}

#[test]
fn a_reader_that_closes_the_pipe_does_not_stop_a_cancel() {
    let place = Place::new();
    let ids: Vec<String> =
        place.ok(&["enqueue", "tick", "--count", "40"]).lines().map(str::to_owned).collect();
    let mut args = vec!["job", "cancel"];
    args.extend(ids.iter().map(String::as_str));
    let mut cancel = place.start(&args);
    drop(cancel.0.stdout.take());
    assert_eq!(cancel.code(), Some(0));
    assert_eq!(place.json(&["queue", "show", "default"])[0]["ready"], 0);
}

/// An id that cannot be acted on, here of a run's task, comes first: the others are acted on all the same.
#[test]
fn an_id_that_cannot_be_cancelled_does_not_keep_the_others() {
    let place = Place::new();
    place.ok(&["workflow", "start", "order", "--id", "order-7"]);
    let id = place.ok(&["enqueue", "tick"]);
    let run = place.run(&["job", "cancel", "order-7!task", "none", &id]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("order-7"), "{run:?}");
    assert_eq!(run.stdout, format!("none not found\n{id} cancelled\n"));
    place.ok(&["workflow", "start", "order", "--id", "order-8"]);
    let mut cancel = place.start(&["workflow", "terminate", "none", "order-7", "order-8"]);
    drop(cancel.0.stdout.take());
    assert_eq!(cancel.code(), Some(1));
    for order in ["order-7", "order-8"] {
        assert_eq!(place.json(&["workflow", "show", order])[0]["status"], "terminated");
    }
}

/// A server that takes connections and never answers, as one that hangs.
#[test]
fn a_command_says_which_store_it_waits_for() {
    let place = Place::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://:hunter2@{}", silent.local_addr().unwrap());
    let run = place.run(&["enqueue", "tick", "--store", &url]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let said = format!("waiting for an answer of redis://{}", silent.local_addr().unwrap());
    assert!(run.stderr.starts_with(&said), "{run:?}");
    assert!(!run.stderr.contains("hunter2"), "{run:?}");
}

#[test]
fn a_reader_that_closes_the_pipe_does_not_stop_a_worker() {
    let place = Place::new();
    let mut worker = place.start(&["worker", "-v", "--json", "--exec", "*=echo ran >> ran"]);
    drop(worker.0.stdout.take());
    place.ok(&["enqueue", "tick", "--count", "3"]);
    until("three jobs", || place.read("ran").lines().count() == 3);
    worker.signal("TERM");
    assert_eq!(worker.code(), Some(0));
}

#[test]
fn stored_text_in_an_error_reaches_stderr_without_control_characters() {
    let place = Place::new();
    let id = place.ok(&["enqueue", "die", "--keep-result", "10m"]);
    place.ok(&["worker", "--exec", r"die=printf 'red\033[31m\007 alert' >&2; exit 65", "--drain"]);
    let run = place.run(&["job", "wait", &id]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("alert") && run.stderr.contains("red"), "{run:?}");
    assert!(!run.stderr.contains(['\x1b', '\x07']), "{run:?}");
}

#[test]
fn an_output_reaches_a_pipe_byte_for_byte() {
    let place = Place::new();
    let id = place.ok(&["enqueue", "say", "--keep-result", "10m"]);
    place.ok(&["worker", "--exec", "say=echo '\"two  spaces\"'", "--drain"]);
    assert_eq!(place.ok(&["job", "wait", &id]), "\"two  spaces\"");
}

#[test]
fn the_largest_limit_there_is_overflows_nothing() {
    let place = Place::new();
    let run =
        place.pipe("{}", &["enqueue", "tick", "--payload", "-", "--max-payload", "18446744073709551615"]);
    assert_eq!(run.code, Some(0), "{run:?}");
}

#[test]
fn an_interrupted_measurement_leaves_nothing_behind() {
    let place = Place::new();
    let mut bench = place.start(&["bench", "--jobs", "20000", "--rounds", "100"]);
    let ready = || {
        let run = place.run(&["queue", "show", "tidemill-bench", "--json"]);
        run.code == Some(0) && !run.stdout.contains("\"ready\":0")
    };
    until("jobs of the measurement", ready);
    bench.signal("INT");
    assert_eq!(bench.code(), Some(1));
    let queue = &place.json(&["queue", "show", "tidemill-bench"])[0];
    let left = ["ready", "scheduled", "running", "dead"].map(|state| queue[state].as_u64().unwrap());
    assert_eq!(left, [0, 0, 0, 0]);
}

#[test]
fn of_jobs_that_fill_a_server_exactly_those_that_were_made_are_printed() {
    let (place, redis) = (Place::new(), Redis::start().unwrap());
    redis.command(&["CONFIG", "SET", "maxmemory", "6mb"]).unwrap();
    let payload = format!("\"{}\"", "x".repeat(1000));
    let many = ["enqueue", "mail", "--count", "20000", "--payload", &payload, "--store", &redis.url()];
    let run = place.run(&many);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let made = redis.command(&["XLEN", "tidemill:stream:default"]).unwrap();
    assert_eq!(run.stdout.lines().count().to_string(), made);
    let said =
        format!("cannot enqueue all `mail`: {made} of 20000 jobs were made: the store takes no writes");
    assert!(run.stderr.contains(&said) && made != "0", "{}", run.stderr);
}

#[test]
fn jobs_that_no_replica_has_confirmed_are_all_made_and_printed() {
    let (place, redis) = (Place::new(), Redis::start().unwrap());
    let url = format!("{}?replicas=1", redis.url());
    for count in ["20", "300"] {
        redis.command(&["FLUSHALL"]).unwrap();
        let run = place.run(&["enqueue", "mail", "--count", count, "--store", &url]);
        assert_eq!((run.code, run.stdout.lines().count().to_string()), (Some(1), count.to_owned()));
        assert_eq!(redis.command(&["XLEN", "tidemill:stream:default"]).unwrap(), count);
        assert!(run.stderr.contains(&format!("{count} of {count} jobs were made")), "{}", run.stderr);
    }
}
