//! The verbs for operators: single jobs, pages of jobs, and the health of the store.

mod checkup;
mod get_job;
mod list_jobs;

pub(crate) use checkup::checkup;
pub(crate) use get_job::{find_record, get_in, get_job};
pub(crate) use list_jobs::list_jobs;
