//! Inspection: one job, pages of jobs, the checkup of the server, and damaged keys.

pub(crate) mod checkup;
pub(crate) mod damage;
mod get_job;
mod indexed_keys;
mod list_jobs;
pub(crate) mod record;

pub(crate) use list_jobs::empty_info;
