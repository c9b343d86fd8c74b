//! Running workflows: claims the tasks of runs, carries the runs on, and commits.
//!
//! A run's task is a job like any other, so the worker claims, leases, heartbeats and settles it; what is added here is
//! what the handler does: [`task`] brings the machine to where the journal is, from the [`cache`] or by [`cold`] replay,
//! lets it consume what is new, and turns what its code asked for into a [`commit`]. Whatever keeps a run from being
//! carried on puts its task back with the reason ([`setback`]); nothing here ever fails a run.

mod activity;
mod cache;
mod cold;
mod commit;
mod errand;
mod foreign_start;
mod local;
mod plan;
mod query;
mod setback;
mod task;

use std::collections::HashMap;
use std::sync::Arc;

use tidemill_core::Kind;

pub use activity::ActivityFn;
pub use plan::RunWorkflows;
pub(crate) use query::{Ask, QUERY, Question};

use crate::program::Programs;
use activity::ActivityCode;
use cache::Cache;

/// What a worker knows of workflows.
pub(crate) struct Host {
    programs: Programs,
    /// The activities that can be run inside a task.
    locals: HashMap<Kind, ActivityCode>,
    cache: Arc<Cache>,
    /// How long journals may grow, whatever their runs say.
    limit: Option<u64>,
    /// How large anything may be that their code hands on.
    payload_limit: usize,
}
