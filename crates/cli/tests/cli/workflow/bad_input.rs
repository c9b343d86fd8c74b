//! What is wrong gets a clear message and the right exit code.

use std::fmt::Write as _;

use super::worker::Crew;
use crate::place::Place;

/// What each command prints, with its exit code.
fn said(place: &Place, cases: &[&[&str]]) -> String {
    let mut said = String::new();
    for case in cases {
        let run = place.run(&[&["workflow"], *case].concat());
        let stderr: Vec<_> = run.stderr.lines().filter(|line| !line.is_empty()).collect();
        let usage = stderr.iter().position(|line| line.starts_with("Usage:")).unwrap_or(stderr.len());
        let code = run.code.unwrap();
        let text = format!("{}{}", run.stdout, stderr[..usage].join("\n"));
        let _ = writeln!(said, "$ tidemill workflow {}\n{}\nexit {code}\n", case.join(" "), text.trim_end());
    }
    said
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_done() {
    let place = Place::new();
    let text = said(
        &place,
        &[
            &["start"],
            &["start", "a b"],
            &["start", "order", "--input", "{\"half\":"],
            &["start", "order", "--input", "text"],
            &["start", "order", "--input", "@missing.json"],
            &["start", "order", "--id", "a b"],
            &["start", "order", "--id", "a~b"],
            &["start", "order", "--version", "1 0"],
            &["start", "order", "--route", "eu/west"],
            &["start", "order", "--attribute", "tier"],
            &["start", "order", "--on-conflict", "reject"],
            &["start", "order", "--key", ""],
            &["list", "--status", "gone"],
            &["list", "--since", "yesterday"],
            &["list", "--limit", "0"],
            &["show", "a b"],
            &["signal", "a", "x y"],
            &["signal", "a", "x", "--payload", "{"],
            &["reset", "a"],
            &["cancel"],
        ],
    );
    insta::assert_snapshot!("wrong_use", text);
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn what_is_not_there_or_has_ended_is_said() {
    let place = Place::new();
    let crew = Crew::start(&place);
    place.ok(&["workflow", "start", "steps", "--input", "1", "--id", "closed", "--wait", "50s"]);
    place.ok(&["workflow", "start", "order", "--input", "1", "--id", "open"]);
    let text = said(
        &place,
        &[
            &["show", "nope"],
            &["journal", "nope"],
            &["journal", "nope", "--export", "nope.json"],
            &["journal", "closed", "--export", "no/such/directory.json"],
            &["wait", "nope"],
            &["signal", "nope", "approve"],
            &["query", "nope", "status"],
            &["update", "nope", "set_limit", "--payload", "1"],
            &["cancel", "nope"],
            &["terminate", "nope"],
            &["reset", "nope", "--to", "2"],
            &["signal", "closed", "approve"],
            &["update", "closed", "set_limit", "--payload", "1"],
            &["cancel", "closed"],
            &["terminate", "closed"],
            &["update", "open", "weather", "--timeout", "10ms"],
            &["query", "open", "weather"],
            &["query", "open", "status", "--payload", "7"],
        ],
    );
    insta::assert_snapshot!("no_answer", text);
    assert!(!place.path("nope.json").exists());
    crew.stop();
}
