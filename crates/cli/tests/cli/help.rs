//! The help texts, as they are printed.

use crate::place::Place;

const COMMANDS: [&[&str]; 20] = [
    &[],
    &["dev"],
    &["worker"],
    &["enqueue"],
    &["job"],
    &["job", "show"],
    &["job", "list"],
    &["job", "cancel"],
    &["job", "wait"],
    &["queue"],
    &["queue", "show"],
    &["queue", "pause"],
    &["queue", "resume"],
    &["queue", "purge"],
    &["dlq"],
    &["dlq", "list"],
    &["dlq", "redrive"],
    &["dlq", "drop"],
    &["browser"],
    &["doctor"],
];

#[test]
fn every_command_says_what_it_does_with_an_example() {
    let place = Place::new();
    for command in COMMANDS {
        let help = place.ok(&[command, &["--help"]].concat());
        assert!(help.contains("Example"), "{command:?}: {help}");
    }
}

#[test]
fn help_of_the_whole_and_of_the_main_commands() {
    let place = Place::new();
    for command in ["", "browser", "dev", "worker", "enqueue", "dlq"] {
        let args: Vec<_> = [command, "--help"].into_iter().filter(|arg| !arg.is_empty()).collect();
        let name = if command.is_empty() { "help".to_owned() } else { format!("help_{command}") };
        insta::assert_snapshot!(name, place.ok(&args));
    }
}

#[test]
fn alone_it_prints_its_help() {
    let run = Place::new().run(&[]);
    assert!(run.stderr.contains("Usage: tidemill"), "{run:?}");
}
