//! Where in its work a worker is to be killed or stopped: it raises the signal against itself, so that it stands exactly
//! there and not a moment before or after.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

/// What a worker says before it meets its fate; the point follows, as JSON.
pub const LAST_WORDS: &str = "fate: ";

/// How long a stopped worker goes on if its gate is not open: enough to end what else it was in the middle of.
const BREATHS: usize = 20;

/// A part of that.
const BREATH: Duration = Duration::from_millis(1);

/// A place in a worker's work where its death can be told from outside: whatever is awaited there is lost with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// A job was claimed, and nothing has come of it yet.
    Claimed,
    /// A workflow's code waits for something.
    Waits,
    /// An activity is about to take effect.
    Begins,
    /// An activity has taken effect, and nobody knows yet.
    Ends,
    /// An activity's end is about to be told to its run.
    Delivers,
    /// It has been told.
    Delivered,
    /// What a task did is about to be written.
    Commits,
    /// It was written.
    Committed,
}

/// What befalls a worker, once.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Fate {
    /// SIGKILL when it comes to this point for the n-th time; the first is 1.
    Killed(Point, usize),
    /// SIGSTOP when it first comes to this point, if its gate is not open. Should it go on before that is, it soon stands
    /// still again.
    Stopped(Point),
}

/// A worker's way towards its fate.
#[derive(Debug)]
pub struct Doom {
    fate: Option<Fate>,
    /// Whoever is to be stopped does not get past its point before this file is there; without one nobody is stopped.
    gate: Option<PathBuf>,
    /// How often it has come to the point in question. Only points of one kind come in one order: a job may be claimed
    /// before the answer to the settlement that made it ready.
    passed: AtomicUsize,
}

impl Doom {
    /// The way towards this.
    pub fn new(fate: Option<Fate>, gate: Option<PathBuf>) -> Self {
        Self { fate, gate, passed: AtomicUsize::new(0) }
    }

    /// The worker has come to a point. It may be its last.
    pub fn reach(&self, point: Point) {
        let (at, last) = match self.fate {
            None => return,
            Some(Fate::Killed(at, n)) => (at, n),
            Some(Fate::Stopped(at)) => (at, 1),
        };
        if at == point && self.passed.fetch_add(1, Ordering::SeqCst) + 1 == last {
            say(point);
            self.meet();
        }
    }

    fn meet(&self) {
        if let Some(Fate::Killed(..)) = self.fate {
            raise(Signal::KILL);
        }
        while !self.is_past() {
            raise(Signal::STOP);
            // This thread may be the last to be stopped, so anywhere from here on. In small parts, because a sleep goes on
            // counting meanwhile.
            for _ in 0..BREATHS {
                if self.is_past() {
                    return;
                }
                std::thread::sleep(BREATH);
            }
        }
    }

    fn is_past(&self) -> bool {
        self.gate.as_ref().is_none_or(|gate| gate.exists())
    }
}

fn say(point: Point) {
    let mut words = std::io::stdout().lock();
    // Whoever listens finds out by what is missing.
    let _ = writeln!(words, "{LAST_WORDS}{}", serde_json::json!(point)).and_then(|()| words.flush());
}

fn raise(signal: Signal) {
    // A process may always signal itself.
    let _ = kill_process(getpid(), signal);
}

impl fmt::Display for Point {
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
