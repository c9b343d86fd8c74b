//! Kill points: places in a worker's code where it kills or stops itself. The worker raises the
//! signal itself, so the place is exact.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

/// Prefix of the line that a worker prints at its kill point; the point follows as JSON.
pub const KILL_POINT_PREFIX: &str = "kill point: ";

/// Number of gate checks after a stopped worker continues: enough to finish its other work.
const STOP_CHECKS: usize = 20;

/// Interval of the gate checks.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// A place in a worker's code. The scenario can observe a death here, because the awaited call is
/// lost with the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillPoint {
    /// A job was claimed, and nothing else has happened.
    Claimed,
    /// The code of a workflow awaits something.
    Waits,
    /// An activity is about to take effect.
    Begins,
    /// An activity has taken effect, and no other process knows.
    Ends,
    /// The end of an activity is about to be delivered to its run.
    Delivers,
    /// The end of an activity was delivered.
    Delivered,
    /// The commit of a task is about to be written.
    Commits,
    /// The commit of a task was written.
    Committed,
}

/// The signal that a worker raises, once.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum PlannedSignal {
    /// SIGKILL when it reaches this point for the n-th time, counted from 1.
    KillAt(KillPoint, usize),
    /// SIGSTOP when it first reaches this point while its gate is closed. If it continues before
    /// the gate opens, it soon stops again.
    StopAt(KillPoint),
}

/// Counts how often the worker reaches the point, and raises the signal.
#[derive(Debug)]
pub struct KillSwitch {
    signal: Option<PlannedSignal>,
    /// A stopped worker does not pass its point before this file exists. Without a gate it does not
    /// stop.
    gate: Option<PathBuf>,
    /// How often it has reached the point. Only points of one kind have an order: a job may be
    /// claimed before the answer to the settlement that made it ready.
    passed: AtomicUsize,
}

impl KillSwitch {
    /// A switch for this signal.
    pub fn new(signal: Option<PlannedSignal>, gate: Option<PathBuf>) -> Self {
        Self { signal, gate, passed: AtomicUsize::new(0) }
    }

    /// Called at each kill point. Does not return if the signal kills the process.
    pub fn reach(&self, point: KillPoint) {
        let (at, last) = match self.signal {
            None => return,
            Some(PlannedSignal::KillAt(at, n)) => (at, n),
            Some(PlannedSignal::StopAt(at)) => (at, 1),
        };
        if at == point && self.passed.fetch_add(1, Ordering::SeqCst) + 1 == last {
            announce(point);
            self.raise_signal();
        }
    }

    fn raise_signal(&self) {
        if let Some(PlannedSignal::KillAt(..)) = self.signal {
            raise(Signal::KILL);
        }
        while !self.is_gate_open() {
            raise(Signal::STOP);
            // This thread may be stopped anywhere from here on. It sleeps in small steps, because
            // time passes while the process is stopped.
            for _ in 0..STOP_CHECKS {
                if self.is_gate_open() {
                    return;
                }
                std::thread::sleep(STOP_CHECK_INTERVAL);
            }
        }
    }

    fn is_gate_open(&self) -> bool {
        self.gate.as_ref().is_none_or(|gate| gate.exists())
    }
}

fn announce(point: KillPoint) {
    let mut stdout = std::io::stdout().lock();
    // The scenario notices a missing line.
    let _ = writeln!(stdout, "{KILL_POINT_PREFIX}{}", serde_json::json!(point)).and_then(|()| stdout.flush());
}

fn raise(signal: Signal) {
    // A process may always signal itself.
    let _ = kill_process(getpid(), signal);
}

impl fmt::Display for KillPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Claimed => "claimed",
            Self::Waits => "waits",
            Self::Begins => "begins",
            Self::Ends => "ends",
            Self::Delivers => "delivers",
            Self::Delivered => "delivered",
            Self::Commits => "commits",
            Self::Committed => "committed",
        })
    }
}
