//! A workflow that awaits something that is not Tidemill's.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use tidemill_core::workflow::WorkflowName;

/// The code awaits a timer, a socket, a channel or a combinator that does not come from its `Ctx`. Nothing would
/// ever wake it in a replay, so the run halts until the code is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// Whose code.
    pub workflow: WorkflowName,
    /// What it had waited for before.
    pub after: String,
    /// How it was noticed.
    pub trace: Trace,
    /// Where it is in the code, if that could be found out: see [`diagnose`](crate::diagnose).
    pub place: Option<String>,
}

/// How a foreign await was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// Somebody keeps a waker, to wake the code at a time that is in no journal.
    KeptWaker,
    /// The code waits, and for nothing of Tidemill's.
    NothingAwaited,
    /// Something of Tidemill's was polled with a waker that is not the run's.
    Combinator,
}

impl std::error::Error for Foreign {}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workflow, after, trace, place } = self;
        write!(f, "workflow `{workflow}` awaits something foreign after {after}: {trace}")?;
        if let Some(place) = place {
            write!(f, "; {place}")?;
        }
        f.write_str("; use what `ctx` offers, or an activity")
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KeptWaker => "a timer, socket, channel or lock keeps its waker",
            Self::NothingAwaited => "nothing of Tidemill's would wake it",
            Self::Combinator => {
                "a combinator polls with a waker of its own (`ctx.join_all`, `join!` and `select!` do not)"
            }
        })
    }
}

/// The waker of the executor. Nothing of Tidemill's keeps or wakes it, so that whoever does is a stranger.
#[derive(Debug)]
pub(crate) struct Lure {
    bait: Arc<Bait>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Bait {
    woken: AtomicBool,
}

impl Wake for Bait {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Relaxed);
    }
}

impl Lure {
    pub(crate) fn new() -> Self {
        let bait = Arc::new(Bait::default());
        Self { waker: Waker::from(bait.clone()), bait }
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The waker's address.
    pub(crate) fn address(&self) -> usize {
        address(&self.waker)
    }

    /// Whether somebody has the waker, or has used it.
    pub(crate) fn is_taken(&self) -> bool {
        // Ours and the waker's.
        Arc::strong_count(&self.bait) > 2 || self.bait.woken.load(Ordering::Relaxed)
    }
}

/// Tells one waker from another.
pub(crate) fn address(waker: &Waker) -> usize {
    waker.data().addr()
}
