//! The test programs of the workspace, in the order in which they run.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::shell;

/// The stage in which a program runs. Programs that fail fast run first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SuiteStage {
    /// Needs no server.
    Fast,
    /// Starts real servers.
    Servers,
    /// Starts real servers and programs that use them.
    Surfaces,
    /// Kills servers and programs.
    Torture,
}

/// One test program.
#[derive(Debug)]
pub(crate) struct Suite {
    /// The crate it belongs to, without `tidemill-`.
    pub(crate) package: String,
    /// The file in `tests/`, or `unit`.
    pub(crate) target: String,
    pub(crate) stage: SuiteStage,
    executable: PathBuf,
    directory: PathBuf,
}

/// The result of one build.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) suites: Vec<Suite>,
    /// The command line program, in the profile of the tests.
    pub(crate) tidemill: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: ArtifactTarget,
    profile: ArtifactProfile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct ArtifactTarget {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct ArtifactProfile {
    test: bool,
}

/// Builds all tests of the workspace in one call. Builds of single crates would build the
/// dependencies again and again, each time with other features.
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
    let stage = if is_unit { SuiteStage::Fast } else { stage_of(&package, &target) };
    Some(Suite { package, target, stage, executable, directory })
}

fn stage_of(package: &str, target: &str) -> SuiteStage {
    match (package, target) {
        ("core" | "worker" | "sqlite" | "xtask", _) | ("testkit", "cases") => SuiteStage::Fast,
        ("redis" | "postgres" | "testkit", _) => SuiteStage::Servers,
        ("torture", _) => SuiteStage::Torture,
        _ => SuiteStage::Surfaces,
    }
}

impl Suite {
    /// The command as cargo runs it.
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
        assert_eq!(
            stages,
            [SuiteStage::Fast, SuiteStage::Servers, SuiteStage::Surfaces, SuiteStage::Torture]
        );
    }
}
