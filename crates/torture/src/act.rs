//! The one kind of job there is here: it says in its payload what it will do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill::{Backoff, Fail, Job, JobContext, State};

use crate::fate::Doom;
use crate::ledger::{Ledger, Step};

/// The at-least-once queue that every scenario uses.
pub const QUEUE: &str = "torture";

/// The at-most-once queue.
pub const ONCE: &str = "torture.once";

/// How often a job looks whether its gate is open.
const GLANCE: Duration = Duration::from_millis(20);

/// A job that does as it says.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Act {
    /// What it does.
    pub deed: Deed,
    /// After how long.
    pub nap_ms: u64,
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    /// Ends well.
    Finish,
    /// Fails this often, then ends well.
    Fail(u32),
    /// Goes to the dead letters.
    Die,
    /// Takes its whole process along.
    Abort,
}

impl Act {
    /// A job that ends well at once.
    pub const INNOCENT: Self = Self { deed: Deed::Finish, nap_ms: 0 };

    /// A job that kills whoever runs it.
    pub const POISON: Self = Self { deed: Deed::Abort, nap_ms: 0 };

    /// A job that ends well after a while.
    pub fn lasting(nap: Duration) -> Self {
        Self { deed: Deed::Finish, nap_ms: u64::try_from(nap.as_millis()).unwrap_or(u64::MAX) }
    }
}

impl Job for Act {
    const KIND: &'static str = "act";
    const QUEUE: &'static str = QUEUE;
    const BACKOFF: Backoff = Backoff::constant(Duration::from_millis(50));
    type Output = ();
}

/// What the handler needs beside its job.
#[derive(Debug, Clone)]
pub struct Desk {
    /// Where it notes what it does.
    pub ledger: Arc<Ledger>,
    /// Jobs do not go on before this file is there.
    pub gate: Option<PathBuf>,
    /// What may befall the worker.
    pub doom: Arc<Doom>,
}

/// Does as the job says.
pub async fn act(job: Act, State(desk): State<Desk>, cx: JobContext) -> Result<(), Fail> {
    desk.ledger.note(Step::Started, cx.id(), cx.attempt())?;
    while desk.gate.as_ref().is_some_and(|gate| !gate.exists()) {
        tokio::time::sleep(GLANCE).await;
    }
    tokio::time::sleep(Duration::from_millis(job.nap_ms)).await;
    match job.deed {
        Deed::Abort => std::process::abort(),
        Deed::Die => return Err(Fail::dead("asked_to", "as it was told")),
        Deed::Fail(times) if cx.attempt() <= times => return Err(Fail::retry("as it was told")),
        Deed::Finish | Deed::Fail(_) => {}
    }
    desk.ledger.note(Step::Ended, cx.id(), cx.attempt())?;
    Ok(())
}
