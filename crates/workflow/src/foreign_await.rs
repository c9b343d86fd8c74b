//! Detection of foreign awaits: futures in a workflow that do not come from its `Ctx`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use tidemill_core::workflow::WorkflowName;

/// The code awaits a timer, socket, channel or combinator that does not come from its `Ctx`. No
/// replay would wake it, so the run is blocked until the code changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignAwait {
    /// The workflow.
    pub workflow: WorkflowName,
    /// What the code waited for before.
    pub after: String,
    /// How the foreign await was detected.
    pub detection: Detection,
    /// Its location in the code, if known: see [`diagnose`](crate::diagnose).
    pub location: Option<String>,
}

/// How a foreign await was detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detection {
    /// A clone of the waker was kept or used. It could wake the code at a time that no journal
    /// records.
    KeptWaker,
    /// The code is pending, but waits for nothing of its `Ctx`.
    NothingAwaited,
    /// A future of the `Ctx` was polled with a waker other than the executor's.
    Combinator,
}

impl std::error::Error for ForeignAwait {}

impl fmt::Display for ForeignAwait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workflow, after, detection, location } = self;
        write!(f, "workflow `{workflow}` awaits something foreign after {after}: {detection}")?;
        if let Some(location) = location {
            write!(f, "; {location}")?;
        }
        f.write_str("; use what `ctx` offers, or an activity")
    }
}

impl fmt::Display for Detection {
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

/// The executor's waker. Futures of the `Ctx` never clone or wake it, so a clone or a wake-up comes
/// from a foreign future.
#[derive(Debug)]
pub(crate) struct ForeignWakeDetector {
    flag: Arc<WakeFlag>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct WakeFlag {
    woken: AtomicBool,
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Relaxed);
    }
}

impl ForeignWakeDetector {
    pub(crate) fn new() -> Self {
        let bait = Arc::new(WakeFlag::default());
        Self { waker: Waker::from(bait.clone()), flag: bait }
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The waker's address.
    pub(crate) fn waker_address(&self) -> usize {
        waker_address(&self.waker)
    }

    /// Whether the waker was cloned or woken.
    pub(crate) fn is_triggered(&self) -> bool {
        // One reference in `flag`, one in `waker`.
        Arc::strong_count(&self.flag) > 2 || self.flag.woken.load(Ordering::Relaxed)
    }
}

/// Identifies a waker.
pub(crate) fn waker_address(waker: &Waker) -> usize {
    waker.data().addr()
}
