//! The calls of the schema's functions from a connection that has no settings of the store.

use crate::jobs::EndArgs;

/// The calls, for one schema.
pub(crate) struct FunctionCalls {
    pub(crate) enqueue: String,
    pub(crate) get: String,
    settle: String,
    continue_job: String,
    complete: String,
    complete_by_continuing: String,
    deliver: String,
    complete_by_delivering: String,
}

impl FunctionCalls {
    pub(crate) fn new(schema: &str) -> Self {
        let call = |what: &str| format!("SELECT {}", what.replace("{}", &format!("\"{schema}\".")));
        Self {
            get: call("* FROM {}jobs_get($1, $2)"),
            enqueue: call("made, others FROM {}enqueue_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
            settle: call("{}settle_job($1, $2, $3, $4, $5, $6, $7) AS woken"),
            continue_job: call("{}continue_job($1, $2, $3, $4, $5, $6, $7) AS woken"),
            complete: call("outcome, woken FROM {}complete_job($1, $2, $3, $4, $5, $6)"),
            complete_by_continuing: call(
                "outcome, woken FROM {}complete_by_continuing($1, $2, $3, $4, $5, $6)",
            ),
            deliver: call("{}deliver_job($1, $2, $3, $4, $5, $6, $7) AS woken"),
            complete_by_delivering: call(
                "outcome, woken FROM {}complete_by_delivering($1, $2, $3, $4, $5, $6)",
            ),
        }
    }

    /// The call that ends a claim.
    pub(crate) fn settle(&self, end: &EndArgs<'_>) -> &str {
        match end {
            EndArgs::Finish(_) => &self.settle,
            EndArgs::Continue(_) => &self.continue_job,
            EndArgs::Deliver(_) => &self.deliver,
        }
    }

    /// The call that ends a job from outside.
    pub(crate) fn complete(&self, end: &EndArgs<'_>) -> &str {
        match end {
            EndArgs::Finish(_) => &self.complete,
            EndArgs::Continue(_) => &self.complete_by_continuing,
            EndArgs::Deliver(_) => &self.complete_by_delivering,
        }
    }
}
