//! How the functions in the schema are called from a connection that knows nothing of the schema.

use crate::jobs::Closing;

/// The calls, for one schema.
pub(crate) struct Calls {
    pub(crate) enqueue: String,
    pub(crate) get: String,
    settle: String,
    go_on: String,
    complete: String,
    complete_by_continuing: String,
    tell: String,
    complete_by_delivering: String,
}

impl Calls {
    pub(crate) fn of(schema: &str) -> Self {
        let call = |what: &str| format!("SELECT {}", what.replace("{}", &format!("\"{schema}\".")));
        Self {
            get: call("* FROM {}jobs_get($1, $2)"),
            enqueue: call("made, others FROM {}enqueue_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
            settle: call("{}settle_job($1, $2, $3, $4, $5, $6, $7) AS woken"),
            go_on: call("{}continue_job($1, $2, $3, $4, $5, $6, $7) AS woken"),
            complete: call("outcome, woken FROM {}complete_job($1, $2, $3, $4, $5, $6)"),
            complete_by_continuing: call(
                "outcome, woken FROM {}complete_by_continuing($1, $2, $3, $4, $5, $6)",
            ),
            tell: call("{}deliver_job($1, $2, $3, $4, $5, $6, $7) AS woken"),
            complete_by_delivering: call(
                "outcome, woken FROM {}complete_by_delivering($1, $2, $3, $4, $5, $6)",
            ),
        }
    }

    /// Ends a claim like this.
    pub(crate) fn settle(&self, closing: &Closing<'_>) -> &str {
        match closing {
            Closing::Close(_) => &self.settle,
            Closing::Follow(_) => &self.go_on,
            Closing::Tell(_) => &self.tell,
        }
    }

    /// Ends a job from outside like this.
    pub(crate) fn complete(&self, closing: &Closing<'_>) -> &str {
        match closing {
            Closing::Close(_) => &self.complete,
            Closing::Follow(_) => &self.complete_by_continuing,
            Closing::Tell(_) => &self.complete_by_delivering,
        }
    }
}
