//! The handler of workflow tasks: brings a run to its next commit.
//!
//! A run's task is a job, so the worker claims, leases, heartbeats and settles it. The handler gets
//! a replayer at the end of the journal, from the [`cache`] or by a [`rebuild`]. It [`run`]s the
//! code with the new events and turns its commands into a [`commit`]. If it cannot, it returns the
//! task with the reason ([`postpone`]); it never fails a run.

mod activity;
mod cache;
mod commit;
mod effects;
mod local;
mod lru;
mod message;
mod postpone;
mod query;
mod rebuild;
mod registration;
mod remote_command;
mod run;
mod start;

use std::collections::HashMap;
use std::sync::Arc;

use tidemill_core::Kind;

pub use activity::ActivityFn;
pub(crate) use commit::{RunContext, notify_parent};
pub(crate) use effects::Effects;
pub(crate) use message::{deliver, entry_kind};
pub(crate) use query::{QUERY_KIND, QueryBody, QueryRequest};
pub(crate) use rebuild::{JournalPages, parse_entries, read_all};
pub use registration::RunWorkflows;
pub(crate) use start::{StartRequest, check_key, queue_route};

use crate::program::Programs;
use activity::ActivityCode;
use cache::ReplayerCache;

/// The workflows and activities of a worker.
pub(crate) struct TaskHandler {
    programs: Programs,
    /// The activities that can run inside a task.
    local_activities: HashMap<Kind, ActivityCode>,
    cache: Arc<ReplayerCache>,
    /// The maximum length of journals, if it overrides the runs' own limits.
    journal_limit: Option<u64>,
    /// The maximum size of a payload, in bytes.
    payload_limit: usize,
}
