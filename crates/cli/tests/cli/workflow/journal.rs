//! Journals: printed, exported as tests, and gone back in.

use tidemill::workflow::testing::replay_dir;

use super::worker::{Crew, programs};
use crate::place::Place;

fn finished(place: &Place) -> Crew {
    let crew = Crew::start(place);
    place.ok(&["workflow", "start", "steps", "--input", "1", "--id", "a", "--wait", "50s"]);
    crew
}

#[test]
fn a_journal_is_printed_an_entry_a_line() {
    let place = Place::new();
    let crew = finished(&place);
    let text = place.ok(&["workflow", "journal", "a"]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert!(lines[0].starts_with("     1  {") && lines[0].contains("\"started\""), "{text}");
    assert!(lines[5].starts_with("     6  {") && lines[5].contains("\"completed\""), "{text}");
    assert_eq!(place.json(&["workflow", "journal", "a"]).len(), 6);
    crew.stop();
}

#[test]
fn an_exported_journal_is_a_test_of_the_code() {
    let place = Place::new();
    let crew = finished(&place);
    std::fs::create_dir(place.path("journals")).unwrap();
    assert_eq!(place.ok(&["workflow", "journal", "a", "--export", "journals/a.json"]), "");
    let piped = place.ok(&["workflow", "journal", "a", "--export", "-"]);
    assert_eq!(piped, place.read("journals/a.json").trim_end());
    assert_eq!(replay_dir(place.path("journals/*.json"), &programs()), Ok(1));
    let other = place.read("journals/a.json").replace("\"charge\"", "\"refund\"");
    place.write("journals/b.json", &other);
    let failed = replay_dir(place.path("journals/*.json"), &programs()).unwrap_err();
    assert_eq!(failed.files.len(), 1);
    assert!(failed.to_string().contains("b.json") && failed.to_string().contains("refund"), "{failed}");
    crew.stop();
}

#[test]
fn a_run_goes_back_to_a_commit_as_a_new_one() {
    let place = Place::new();
    let crew = finished(&place);
    let new = place.ok(&["workflow", "reset", "a", "--to", "4"]);
    assert_ne!(new, "a");
    assert_eq!(place.ok(&["workflow", "wait", &new, "--timeout", "50s"]), "26");
    let (old, kept) = (place.json(&["workflow", "journal", "a"]), place.json(&["workflow", "journal", &new]));
    assert_eq!(kept[1..4], old[1..4]);
    place.ok(&["workflow", "journal", &new, "--export", "again.json"]);
    assert_eq!(replay_dir(place.path("again.json"), &programs()), Ok(1));
    for (position, why) in [
        ("3", "entry 3 of run `a` is no commit"),
        ("6", "entry 6 of run `a` is the commit that ended it: choose an earlier one"),
        ("99", "entry 99 of run `a` is no commit"),
        ("0", "entry 0 of run `a` is no commit"),
    ] {
        let run = place.run(&["workflow", "reset", "a", "--to", position]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{run:?}");
        assert!(run.stderr.contains(why), "{run:?}");
    }
    crew.stop();
}
