//! The foreign program and its output.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use tidemill_testkit::servers::Redis;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/queuert.py");

/// A listener of the foreign program. It ends with the test.
pub(crate) struct Listener {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Listener {
    /// Starts version 0.11, and waits until it is subscribed.
    pub(crate) fn start(redis: &Redis, type_name: &str, workers: usize) -> Self {
        Self::start_as("listen", redis, type_name, workers)
    }

    /// Starts version 0.12.
    pub(crate) fn start_new(redis: &Redis, type_name: &str, workers: usize) -> Self {
        Self::start_as("listen-new", redis, type_name, workers)
    }

    fn start_as(word: &str, redis: &Redis, type_name: &str, workers: usize) -> Self {
        let mut command = foreign(redis, &[word, type_name, &workers.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut listener = Self { said: BufReader::new(child.stdout.take().unwrap()), child };
        assert_eq!(listener.next(), "ready");
        listener
    }

    /// Its next line.
    pub(crate) fn next(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// The first words of its next lines: what its workers do.
    pub(crate) fn workers(&mut self, lines: usize) -> Vec<String> {
        let word = |line: String| line.split(' ').next().unwrap_or_default().to_owned();
        (0..lines).map(|_| word(self.next())).collect()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the program to its end and returns its output.
pub(crate) fn run(redis: &Redis, args: &[&str]) -> String {
    let output = foreign(redis, args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn foreign(redis: &Redis, args: &[&str]) -> Command {
    let mut command = Command::new(python());
    command.arg(SCRIPT).arg(redis.port().to_string()).arg("queuert").args(args);
    command
}

/// A Python with the client: the distribution's package is for the distribution's Python.
fn python() -> &'static str {
    let knows = |python: &&str| {
        let mut ask = Command::new(python);
        ask.args(["-c", "import redis"]).stdout(Stdio::null()).stderr(Stdio::null());
        ask.status().is_ok_and(|status| status.success())
    };
    let pythons = ["python3", "/usr/bin/python3"];
    let missing = || panic!("install python3-redis, or run `cargo xtask test`, which does");
    pythons.into_iter().find(knows).unwrap_or_else(missing)
}
