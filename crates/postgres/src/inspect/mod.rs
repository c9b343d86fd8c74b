//! The verbs for operators: single jobs, pages of jobs, and the health of the server.

mod checkup;
mod get_job;
mod list_jobs;

pub(crate) use get_job::MAX_NAMED_BLOCKERS;
