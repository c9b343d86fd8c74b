//! `find_run`: finds a run by its idempotency key.

use tidemill_core::Error;
use tidemill_core::workflow::{RunId, WorkflowName};
use tokio_postgres::types::Type;

use crate::Inner;
use crate::connection::StatementCall;
use crate::jobs::corrupt;
use crate::sql::FIND_RUN;

impl Inner {
    pub(crate) async fn find_run(&self, workflow: &WorkflowName, key: &str) -> Result<Option<RunId>, Error> {
        let call = StatementCall::plain(&FIND_RUN, &self.pool.connector.schema, &[Type::TEXT, Type::TEXT]);
        let rows = self.pool.send(&call, &[&workflow.as_str(), &key]).await?;
        rows.first().map(|row| RunId::new(row.get("run")).map_err(corrupt)).transpose()
    }
}
