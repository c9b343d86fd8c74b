//! `find_run`: finds a run by its idempotency key.

use tidemill_core::Error;
use tidemill_core::workflow::{RunId, WorkflowName};

use crate::Inner;
use crate::jobs::corrupt;
use crate::sql::FIND_RUN;

impl Inner {
    pub(crate) async fn find_run(&self, workflow: &WorkflowName, key: &str) -> Result<Option<RunId>, Error> {
        let rows = self.pool.query(&FIND_RUN, &[&workflow.as_str(), &key]).await?;
        rows.first().map(|row| RunId::new(row.get("run")).map_err(corrupt)).transpose()
    }
}
