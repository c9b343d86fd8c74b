//! A directory of a test's own, and the binary run in it.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Place {
    directory: TempDir,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: &str) {
        std::fs::write(self.path(name), contents).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// What is in the directory.
    pub(crate) fn files(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill"));
        command.args(args).current_dir(self.directory.path());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TIDEMILL_")) {
            command.env_remove(name);
        }
        command.env_remove("COLUMNS").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        Run::of(self.command(args).output().unwrap())
    }

    /// Runs it with variables set.
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Run {
        Run::of(self.command(args).envs(variables.iter().copied()).output().unwrap())
    }

    /// Runs it with something on stdin.
    pub(crate) fn pipe(&self, input: &str, args: &[&str]) -> Run {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Run::of(child.wait_with_output().unwrap())
    }

    /// Runs it, expects success, and returns what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, Some(0), "{args:?}: {run:?}");
        run.stdout.trim_end().to_owned()
    }

    /// Runs it with `--json`, expects success, and returns the objects it printed.
    pub(crate) fn json(&self, args: &[&str]) -> Vec<Value> {
        let text = self.ok(&[args, &["--json"]].concat());
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .inspect(|v: &Value| assert!(v.is_object()))
            .collect()
    }

    /// Starts it and lets it run.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running(self.command(args).spawn().unwrap())
    }

    /// Waits for a file that a program writes, and returns what is in it.
    pub(crate) fn wait_for(&self, name: &str) -> String {
        until(name, || self.path(name).exists());
        self.read(name)
    }
}

impl Run {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// A binary that is running. It does not outlive its test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Sends it a signal, such as `TERM`.
    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args(["-s", signal, &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for its end.
    pub(crate) fn code(&mut self) -> Option<i32> {
        until("the end of tidemill", || self.0.try_wait().unwrap().is_some());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, is: impl FnMut() -> bool) {
    let (begun, mut is) = (Instant::now(), is);
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{what} took longer than {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process is there and has not ended. One that nobody has buried yet has ended.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}
