//! Looking: one job, a page of jobs, the server, damage.

pub(crate) mod checkup;
pub(crate) mod damage;
mod get_job;
mod indexed_keys;
mod list_jobs;
pub(crate) mod record;

pub(crate) use list_jobs::blank;
