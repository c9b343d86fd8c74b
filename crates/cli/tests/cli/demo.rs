//! `dev`: the demo, and a worker with a view.

use crate::place::Place;

#[test]
fn the_demo_shows_it_all_and_ends_by_itself() {
    let place = Place::new();
    let run = place.run_with(&[("TIDEMILL_STORE", "redis://127.0.0.1:1")], &["dev", "--demo"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let rows: Vec<Vec<_>> =
        run.stdout.lines().map(|line| line.split_whitespace().take(5).collect()).collect();
    let counts = |kind: &str| rows.iter().find(|row| row.first() == Some(&kind)).unwrap()[1..].join(" ");
    assert_eq!(counts("resize_image"), "200 0 0 0");
    assert_eq!(counts("send_email"), "40 80 0 0");
    assert_eq!(counts("call_api"), "60 20 0 0");
    assert_eq!(counts("import_report"), "11 0 1 0");
    assert_eq!(counts("send_reminder"), "5 0 0 0");
    assert_eq!(counts("render_video"), "0 0 0 1");
    assert_eq!(counts("ping"), "50 0 0 0");
    assert!(run.stdout.contains("reason      bad_format"), "{}", run.stdout);
    assert!(run.stderr.lines().filter(|line| line.contains("done ")).count() > 1, "{}", run.stderr);
    assert!(!run.stderr.contains('\x1b') && !run.stdout.contains('\x1b'));
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn a_demo_in_a_file_leaves_its_dead_letter_to_look_at() {
    let place = Place::new();
    let lines = place.json(&["dev", "--demo", "--store", "sqlite:demo.db"]);
    let done: u64 = lines.iter().filter_map(|line| line["done"].as_u64()).sum();
    assert_eq!((done, &lines.last().unwrap()["reason"]), (366, &"bad_format".into()));
    let letters = place.json(&["--store", "sqlite:demo.db", "dlq", "list"]);
    assert_eq!((letters.len(), &letters[0]["kind"]), (1, &"import_report".into()));
    assert_eq!(
        place.ok(&["--store", "sqlite:demo.db", "job", "list", "--state", "ready"]),
        "there are no such jobs"
    );
}

#[test]
fn dev_answers_the_first_enqueue_without_any_handler() {
    let place = Place::new();
    let mut dev = place.start(&["dev"]);
    let run = place.run(&["enqueue", "greet", "--payload", r#"{"name":"Ada"}"#, "--wait", "50s"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "{\"name\":\"Ada\"}\n"), "{run:?}");
    dev.signal("INT");
    assert_eq!(dev.code(), Some(0));
}
