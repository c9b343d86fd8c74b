//! What a run has done, and why it is not moving.

use super::steady::steady;
use super::worker::Crew;
use crate::place::{Place, until};

/// Shows a run once it stands as expected.
fn show_when(place: &Place, run: &str, why: &str, says: &str) -> String {
    until(why, || {
        let shown = place.json(&["workflow", "show", run]).remove(0);
        shown["why"] == why && shown.to_string().contains(says)
    });
    place.ok(&["workflow", "show", run])
}

/// The same without what is a matter of chance: whether it is tried again later, or right now.
fn settled(shown: &str) -> String {
    let shown = steady(shown);
    shown.replace(", and tried again in SPAN:", ":")
}

#[test]
fn a_run_that_waits_says_for_what() {
    let place = Place::new();
    let crew = Crew::start(&place);
    place.ok(&["workflow", "start", "order", "--input", "99", "--id", "order-7", "--attribute", "tier=gold"]);
    let shown = show_when(&place, "order-7", "waits", "signal `approve`");
    insta::assert_snapshot!("waits", steady(&shown));
    // Without a worker the journal tells.
    crew.stop();
    let shown = place.ok(&["workflow", "show", "order-7"]);
    assert!(shown.contains("it waits for\n  signal `approve`, for "), "{shown}");
}

#[test]
fn a_run_is_addressed_by_its_key() {
    let place = Place::new();
    let run = place.ok(&["workflow", "start", "order", "--input", "1", "--key", "order-7"]);
    let run = run.trim();
    let by_key = ["--type", "order", "--key", "order-7"];
    let ok = |command: &[&str]| place.ok(&[&["workflow"], command, &by_key[..]].concat());
    assert_eq!(place.json(&["workflow", "show", "--type", "order", "--key", "order-7"])[0]["run"], run);
    assert!(ok(&["journal"]).contains("order-7"));
    assert_eq!(ok(&["signal", "approve"]).trim(), format!("signal approve sent to {run}"));
    assert_eq!(ok(&["terminate"]).trim(), format!("{run} terminated"));
    let missing = place.run(&["workflow", "show", "--type", "order", "--key", "order-8"]);
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.stderr.contains("no run of workflow order has the key \"order-8\""),
        "{}",
        missing.stderr
    );
    let misused: [&[&str]; 5] = [
        &["show"],
        &["show", run, "--type", "order", "--key", "order-7"],
        &["show", "--key", "order-7"],
        &["show", run, "--type", "order"],
        &["signal", "--type", "order", "--key", "order-7"],
    ];
    for args in misused {
        let refused = place.run(&[&["workflow"], args].concat());
        assert_eq!(refused.code, Some(2), "{args:?}: {}", refused.stderr);
    }
}

#[test]
fn a_run_that_nobody_serves_says_where_it_waits() {
    let place = Place::new();
    place.ok(&["workflow", "start", "order", "--input", "1", "--route", "eu-west", "--id", "a"]);
    let shown = place.ok(&["workflow", "show", "a"]);
    assert!(shown.ends_with("it waits for a worker on queue workflow/order/eu-west"), "{shown}");
}

#[test]
fn a_paused_queue_is_named_whether_it_is_the_runs_own_or_its_activitys() {
    let place = Place::new();
    place.ok(&["workflow", "start", "order", "--input", "1", "--id", "a"]);
    place.ok(&["queue", "pause", "workflow/order"]);
    let shown = place.ok(&["workflow", "show", "a"]);
    let says = "its queue workflow/order is paused (`tidemill queue resume workflow/order`)";
    assert!(shown.ends_with(says), "{shown}");
    place.ok(&["queue", "pause", "activities"]);
    let crew = Crew::start(&place);
    place.ok(&["queue", "resume", "workflow/order"]);
    let shown = show_when(&place, "a", "waits", "queue `activities` is paused");
    assert!(shown.trim_end().ends_with(": queue `activities` is paused"), "{shown}");
    crew.stop();
}

#[test]
fn an_activity_that_no_worker_knows_is_named() {
    let place = Place::new();
    let crew = Crew::clueless(&place);
    place.ok(&["workflow", "start", "order", "--input", "1", "--id", "a"]);
    let shown = show_when(&place, "a", "waits", "handler");
    let last = shown.lines().last().unwrap();
    assert!(last.contains("activity `charge`"), "{shown}");
    assert!(last.ends_with("no worker here has a handler for kind `charge`"), "{shown}");
    crew.stop();
}

#[test]
fn a_run_whose_version_nobody_knows_says_so() {
    let place = Place::new();
    let crew = Crew::start(&place);
    place.ok(&["workflow", "start", "order", "--input", "1", "--version", "2.0.0", "--id", "a"]);
    let shown = show_when(&place, "a", "blocked", "no worker for version 2.0.0");
    insta::assert_snapshot!("no_worker_for_version", settled(&shown));
    crew.stop();
}

#[test]
fn a_blocked_run_shows_what_was_expected_and_what_came_and_heals_with_the_right_code() {
    let place = Place::new();
    let crew = Crew::start(&place);
    place.ok(&["workflow", "start", "order", "--input", "1", "--id", "a"]);
    show_when(&place, "a", "waits", "signal `approve`");
    crew.stop();
    place.ok(&["workflow", "signal", "a", "approve", "--payload", "\"ann\""]);
    let hasty = Crew::hasty(&place);
    let shown = show_when(&place, "a", "blocked", "does not agree with the journal");
    insta::assert_snapshot!("blocked", settled(&shown));
    hasty.stop();
    let crew = Crew::start(&place);
    let output = place.ok(&["workflow", "wait", "a", "--timeout", "55s"]);
    assert_eq!(output, "\"receipt for 1, approved by ann\"");
    crew.stop();
}

#[test]
fn a_run_that_has_ended_shows_its_whole_journal() {
    let place = Place::new();
    let crew = Crew::start(&place);
    assert_eq!(
        place.run(&["workflow", "start", "steps", "--input", "13", "--id", "a", "--key", "k", "--wait"]).code,
        Some(2),
        "an id or a key"
    );
    place.run(&["workflow", "start", "steps", "--input", "13", "--id", "a", "--wait"]);
    insta::assert_snapshot!("failed", steady(&place.ok(&["workflow", "show", "a"])));
    crew.stop();
}
