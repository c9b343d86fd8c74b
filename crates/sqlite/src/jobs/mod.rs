//! The job verbs: what each does to the rows, inside a transaction that the writer opens and
//! commits.

mod adjust_for_clock_step;
mod cancel;
mod claim;
mod complete;
mod delete;
mod detached_job;
mod drop_dead;
mod enqueue;
mod extend;
mod job_row;
mod list_expired;
mod peek;
mod promote;
mod prune;
mod recover;
mod redrive;
mod settle;
mod start;
mod waiting;

pub(crate) use adjust_for_clock_step::adjust_for_clock_step;
pub(crate) use cancel::{cancel, cancel_for_run};
pub(crate) use claim::claim;
pub(crate) use complete::{complete, complete_one};
pub(crate) use delete::delete;
pub(crate) use detached_job::insert_record;
pub(crate) use drop_dead::drop_dead;
pub(crate) use enqueue::{due_time, enqueue, insert_all};
pub(crate) use extend::extend;
pub(crate) use job_row::{JobRow, JobRowState, delete_row, find};
pub(crate) use list_expired::list_expired;
pub(crate) use promote::promote;
pub(crate) use prune::prune;
pub(crate) use recover::recover;
pub(crate) use redrive::redrive;
pub(crate) use settle::{is_current, rescue, settle, settle_one};
pub(crate) use start::start;
pub(crate) use waiting::insert_and_announce;
