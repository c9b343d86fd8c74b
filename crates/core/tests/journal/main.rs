//! A journal reads back byte by byte, and a damaged one gives an error that says what is wrong.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod strategies;

use proptest::prelude::*;
use tidemill_core::Timestamp;
use tidemill_core::workflow::{Command, Entry, EntryContent, Json, RetryPolicy, RunEvent, ScheduleActivity};

proptest! {
    #[test]
    fn every_entry_reads_back_and_is_written_the_same(entry in strategies::entry()) {
        let bytes = entry.write();
        let again = Entry::read(&bytes).unwrap();
        prop_assert_eq!(&again, &entry);
        prop_assert_eq!(again.write(), bytes);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Entry::read(&bytes);
    }
}

#[test]
fn unknown_fields_are_left_to_whoever_knows_them() {
    let entry = Entry::read(br#"{"v":2,"at":5,"event":{"timer_fired":{"seq":3,"late_ms":7}}}"#).unwrap();
    assert_eq!(entry, Entry::event(Timestamp(5), RunEvent::TimerFired { seq: 3 }));
}

#[test]
fn an_entry_that_is_none_says_what_it_lacks() {
    let bad = [
        (r#"{"at":5}"#, "either an event or a commit"),
        (r#"{"at":5,"event":{"timer_fired":{"seq":3}},"commit":{"upto":1}}"#, "either an event or a commit"),
        (r#"{"at":5,"event":{"exploded":{}}}"#, "unknown variant"),
        (r#"{"at":5,"event":{"signal":{"name":"a b","payload":1}}}"#, "name \"a b\" is not valid"),
        (r#"{"at":5,"event":{"timer_fired":{}}}"#, "missing field `seq`"),
    ];
    for (text, expected) in bad {
        let error = Entry::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("not a journal entry: ") && error.contains(expected), "{error}");
    }
}

#[test]
fn payloads_are_carried_to_the_letter() {
    let text = r#"{"at":1,"event":{"activity_done":{"seq":1,"result":{"ok":{"b": 1.10,"a":[1e400]}}}}}"#;
    assert_eq!(Entry::read(text.as_bytes()).unwrap().write(), text.as_bytes());
}

#[test]
fn the_same_step_is_told_by_what_is_asked_for_not_with_what() {
    let activity = |seq, name: &str, input: &str| {
        Command::ScheduleActivity(Box::new(ScheduleActivity {
            seq,
            name: name.parse().unwrap(),
            input: Json::from_text(input).unwrap(),
            queue: None,
            retry: RetryPolicy::default(),
            start_to_close_ms: None,
            schedule_to_close_ms: None,
            heartbeat_ms: None,
        }))
    };
    assert!(activity(1, "charge", "1").is_same_step(&activity(1, "charge", "2")));
    assert!(!activity(1, "charge", "1").is_same_step(&activity(2, "charge", "1")));
    assert!(!activity(1, "charge", "1").is_same_step(&activity(1, "refund", "1")));
    assert!(!activity(1, "charge", "1").is_same_step(&Command::CancelActivity { seq: 1 }));
    assert_eq!(activity(1, "charge", "1").to_string(), "schedule activity `charge` (seq 1)");
}

#[test]
fn a_short_event_stays_short() {
    let entry =
        Entry { at: Timestamp(1), content: EntryContent::Event(RunEvent::CancelRequested { reason: None }) };
    assert_eq!(entry.write(), &br#"{"at":1,"event":{"cancel_requested":{}}}"#[..]);
}
