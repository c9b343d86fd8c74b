//! Stopping a worker: once in order, twice at once.

use std::io::{BufRead, BufReader};

use crate::place::{Place, is_alive, until};

#[test]
fn a_signal_lets_running_jobs_end() {
    let place = Place::new();
    place.ok(&["enqueue", "work", "--keep-result", "1h", "--id", "job"]);
    let program = "work=touch started; while [ ! -e go ]; do sleep 0.02; done; echo done";
    let mut worker = place.start(&["worker", "--exec", program]);
    place.wait_for("started");
    worker.signal("TERM");
    let stderr = BufReader::new(worker.0.stderr.take().unwrap());
    assert!(stderr.lines().map_while(Result::ok).any(|line| line.starts_with("stopping")));
    place.write("go", "");
    assert_eq!(worker.code(), Some(0));
    assert_eq!(place.json(&["job", "show", "job"])[0]["output"], "done");
}

#[test]
fn a_second_signal_ends_the_worker_and_its_programs_at_once() {
    let place = Place::new();
    place.ok(&["enqueue", "work"]);
    let mut worker = place.start(&[
        "worker",
        "--exec",
        "work=trap '' TERM INT; echo $$ > pid; mv pid started; while :; do sleep 1; done",
    ]);
    let pid = place.wait_for("started");
    worker.signal("INT");
    let mut stderr = BufReader::new(worker.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(stderr.any(|line| line.starts_with("stopping")));
    worker.signal("INT");
    assert_eq!(worker.code(), Some(1));
    until("the end of the program", || !is_alive(&pid));
}

#[test]
fn a_job_that_outlasts_the_grace_goes_back_uncounted() {
    let place = Place::new();
    place.ok(&["enqueue", "work", "--id", "job"]);
    let mut worker = place.start(&[
        "worker",
        "--shutdown-grace",
        "100ms",
        "--exec",
        "work=echo $$ > pid; mv pid started; sleep 1000",
    ]);
    let pid = place.wait_for("started");
    worker.signal("TERM");
    assert_eq!(worker.code(), Some(0));
    assert!(!is_alive(&pid));
    let job = &place.json(&["job", "show", "job"])[0];
    assert_eq!((&job["state"], &job["attempts"]), (&"ready".into(), &0.into()));
}
