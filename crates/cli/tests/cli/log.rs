//! The log on stderr says why a job failed, without being asked.

use std::io::{BufRead, BufReader};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tidemill_testkit::servers::Redis;

use crate::place::{Place, until};

#[test]
fn every_failure_and_death_is_logged_with_its_reason_and_next_try() {
    let place = Place::new();
    place.ok(&["enqueue", "mail", "--id", "m1", "--max-attempts", "2"]);
    let run = place.run(&["worker", "--exec", "mail=echo no route to host >&2; exit 1", "--drain"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let lines: Vec<_> = run.stderr.lines().filter(|line| line.contains("WARN")).collect();
    let [failed, died] = lines[..] else { panic!("{run:?}") };
    for part in
        ["attempt 1 of 2 failed: no route to host; next try in", "job=m1", "kind=mail", "queue=default"]
    {
        assert!(failed.contains(part), "{part}: {failed}");
    }
    for part in ["job is dead after attempt 2 (max_attempts_exceeded): no route to host", "job=m1"] {
        assert!(died.contains(part), "{part}: {died}");
    }
}

#[test]
fn a_flood_of_failures_is_counted_instead_of_logged() {
    let place = Place::new();
    place.ok(&["enqueue", "mail", "--count", "60", "--max-attempts", "2"]);
    let run = place.run(&["worker", "--queue", "default=20", "--exec", "mail=exit 3", "--drain"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let failed = run.stderr.lines().filter(|line| line.contains("attempt 1 of 2 failed")).count();
    let omitted =
        |line: &str| Some(line.split_once("failures=")?.1.split(' ').next()?.parse::<usize>().unwrap());
    let omitted: usize = run.stderr.lines().filter_map(omitted).sum();
    assert!(failed < 60 && failed + omitted == 60, "{failed} logged, {omitted} counted: {run:?}");
    assert_eq!(run.stderr.lines().filter(|line| line.contains("job is dead")).count(), 60);
}

#[test]
fn the_log_can_be_json_a_line_each() {
    let place = Place::new();
    place.ok(&["enqueue", "mail", "--id", "m1", "--max-attempts", "1"]);
    let worker = ["worker", "--exec", "mail=exit 3", "--drain", "--log-format", "json"];
    let run = place.run(&worker);
    let lines: Vec<Value> = run.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let died = lines.iter().find(|line| line["job"] == "m1").unwrap_or_else(|| panic!("{run:?}"));
    assert_eq!(
        (&died["level"], &died["kind"], &died["attempt"]),
        (&"WARN".into(), &"mail".into(), &1.into())
    );
}

#[test]
fn an_outage_is_logged_once_when_it_begins_and_once_when_it_is_over() {
    let (place, redis) = (Place::new(), Redis::start().unwrap());
    let url = redis.url();
    let worker = ["worker", "--queue", "a", "--queue", "b", "--queue", "c", "--exec", "*=echo ran >> ran"];
    let mut worker = place.start(&[&["--store", &url], &worker[..]].concat());
    let log = Arc::new(Mutex::new(Vec::new()));
    let (lines, stderr) = (log.clone(), BufReader::new(worker.0.stderr.take().unwrap()));
    let reader = std::thread::spawn(move || {
        stderr.lines().map_while(Result::ok).for_each(|line| lines.lock().unwrap().push(line));
    });
    let count = |text: &str| log.lock().unwrap().iter().filter(|line| line.contains(text)).count();
    place.ok(&["enqueue", "tick", "--queue", "a", "--store", &url]);
    until("the first job", || place.read("ran").lines().count() == 1);
    redis.kill().unwrap();
    until("the outage", || count("an outage begins") > 0);
    redis.restart().unwrap();
    until("the end of the outage", || count("the outage is over") > 0);
    place.ok(&["enqueue", "tick", "--queue", "b", "--store", &url]);
    until("the second job", || place.read("ran").lines().count() == 2);
    worker.signal("TERM");
    assert_eq!(worker.code(), Some(0));
    reader.join().unwrap();
    let said = (count("an outage begins"), count("the outage is over"));
    assert_eq!(said.0, said.1, "{log:?}");
    assert!(said.0 <= 2, "one outage, and at most one more while the server starts: {log:?}");
}

#[test]
fn the_death_of_a_job_whose_worker_was_killed_is_logged() {
    let place = Place::new();
    place.ok(&["enqueue", "mail", "--id", "m1", "--max-attempts", "1"]);
    let first = place.start(&["worker", "--lease", "1s", "--exec", "mail=echo > begun; sleep 20"]);
    place.wait_for("begun");
    first.signal("KILL");
    let mut other = place.start(&["worker", "--lease", "1s", "--exec", "mail=true"]);
    until("the death", || place.run(&["dlq", "show", "m1"]).code == Some(0));
    other.signal("TERM");
    assert_eq!(other.code(), Some(0));
    let log = std::io::read_to_string(other.0.stderr.take().unwrap()).unwrap();
    let died = log.lines().find(|line| line.contains("job is dead after attempt 1 (max_attempts_exceeded)"));
    assert!(died.is_some_and(|line| line.contains("WARN") && line.contains("job=m1")), "{log}");
}
