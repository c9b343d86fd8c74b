//! The test programs of the workspace, in the order in which they are worth running.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::shell;

/// When a program runs: what fails fast comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Needs nothing but itself.
    Fast,
    /// Starts real servers.
    Servers,
    /// Starts real servers and programs that use them.
    Surfaces,
    /// Kills both.
    Torture,
}

/// One test program.
#[derive(Debug)]
pub(crate) struct Suite {
    /// The crate it belongs to, without `tidemill-`.
    pub(crate) package: String,
    /// The file in `tests/`, or `unit`.
    pub(crate) target: String,
    pub(crate) stage: Stage,
    executable: PathBuf,
    directory: PathBuf,
}

/// What one build made.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) suites: Vec<Suite>,
    /// The command line program, in the profile of the tests.
    pub(crate) tidemill: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds every test of the workspace in one go: built crate by crate, dependencies would be built again and
/// again, each time with other features.
pub(crate) fn build() -> Result<Built> {
    let args =
        ["test", "--workspace", "--all-features", "--no-run", "--message-format=json-render-diagnostics"];
    println!("$ cargo {}", args.join(" "));
    let output = shell::cargo(&args).stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the tests do not build");
    }
    let text = String::from_utf8(output.stdout).context("cargo printed no text")?;
    let artifacts: Vec<_> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let tidemill = artifacts.iter().find_map(program);
    let mut suites: Vec<_> = artifacts.into_iter().filter_map(suite).collect();
    suites.sort_by(|a, b| (a.stage, &a.package, &a.target).cmp(&(b.stage, &b.package, &b.target)));
    Ok(Built { suites, tidemill })
}

fn program(artifact: &Artifact) -> Option<PathBuf> {
    let is_it = artifact.target.name == "tidemill" && artifact.target.kind == ["bin"];
    artifact.executable.clone().filter(|_| is_it && !artifact.profile.test)
}

fn suite(artifact: Artifact) -> Option<Suite> {
    let executable = artifact.executable.filter(|_| artifact.profile.test)?;
    let directory = artifact.manifest_path.parent()?.to_owned();
    let package = directory.file_name()?.to_str()?.to_owned();
    let is_unit = artifact.target.kind != ["test"];
    let target = if is_unit { "unit".to_owned() } else { artifact.target.name };
    let stage = if is_unit { Stage::Fast } else { stage_of(&package, &target) };
    Some(Suite { package, target, stage, executable, directory })
}

fn stage_of(package: &str, target: &str) -> Stage {
    match (package, target) {
        ("core" | "worker" | "sqlite" | "xtask", _) | ("testkit", "cases") => Stage::Fast,
        ("redis" | "postgres" | "testkit", _) => Stage::Servers,
        ("torture", _) => Stage::Torture,
        _ => Stage::Surfaces,
    }
}

impl Suite {
    /// As cargo would run it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_no_server_runs_first() {
        let mut stages = [
            stage_of("torture", "kill"),
            stage_of("cli", "dev"),
            stage_of("redis", "x"),
            stage_of("core", "x"),
        ];
        stages.sort();
        assert_eq!(stages, [Stage::Fast, Stage::Servers, Stage::Surfaces, Stage::Torture]);
    }
}
