//! A worker process, from the side of the scenario.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::kill_points::{KILL_POINT_PREFIX, KillPoint};
use crate::worker_main::{WorkerReport, WorkerSpec};

/// The line that a worker prints before it starts to claim.
pub const READY: &str = "ready";

/// How a worker process ended.
#[derive(Debug)]
pub enum ProcessEnd {
    /// After a stop request, with this report.
    Orderly(WorkerReport),
    /// At its planned kill point.
    AtKillPoint(KillPoint),
}

/// A worker process. Dropping it kills it.
pub struct WorkerProcess {
    process: Child,
    stdout: BufReader<ChildStdout>,
}

impl WorkerProcess {
    /// Starts a worker and waits until it is ready to claim.
    pub fn start(program: &Path, spec: &WorkerSpec) -> Result<Self> {
        let mut process = Command::new(program)
            .arg("worker")
            .arg(serde_json::to_string(spec)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let stdout = BufReader::new(process.stdout.take().context("a worker without output")?);
        let mut worker = Self { process, stdout };
        let mut line = String::new();
        worker.stdout.read_line(&mut line)?;
        ensure!(line.trim() == READY, "a worker did not start: it printed {line:?}");
        Ok(worker)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether the process has ended. Reaps it.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(_)))
    }

    /// Waits until the process ends.
    pub fn wait(&mut self) -> Result<()> {
        self.process.wait().context("cannot wait for a worker").map(drop)
    }

    /// Kills the process with SIGKILL.
    pub fn kill(mut self) -> Result<()> {
        self.process.kill()?;
        self.wait()
    }

    /// Stops the process with SIGSTOP, wherever it is.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Continues the process with SIGCONT.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        // It is an unreaped child, so the kernel has not reused its pid.
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).context("a worker without a pid")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal worker {pid:?}"))
    }

    /// Waits until it reaches its kill point.
    pub fn wait_for_kill_point(&mut self) -> Result<()> {
        let mut stdout = String::new();
        while !stdout.starts_with(KILL_POINT_PREFIX) {
            stdout.clear();
            ensure!(self.stdout.read_line(&mut stdout)? > 0, "a worker has ended before its kill point");
        }
        Ok(())
    }

    /// Stops it in order and returns its report.
    pub fn shut_down(self) -> Result<WorkerReport> {
        match self.stop()? {
            ProcessEnd::Orderly(report) => Ok(report),
            ProcessEnd::AtKillPoint(point) => bail!("a worker was killed at {point}"),
        }
    }

    /// Stops it in order, unless it has reached its kill point.
    pub fn stop(mut self) -> Result<ProcessEnd> {
        drop(self.process.stdin.take());
        let mut stdout = String::new();
        self.stdout.read_to_string(&mut stdout)?;
        self.wait()?;
        // Handlers may print lines, too.
        let last = stdout.lines().last().unwrap_or_default();
        match last.strip_prefix(KILL_POINT_PREFIX) {
            Some(point) => serde_json::from_str(point).map(ProcessEnd::AtKillPoint),
            None => serde_json::from_str(last).map(ProcessEnd::Orderly),
        }
        .with_context(|| format!("a worker printed {stdout:?}"))
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
