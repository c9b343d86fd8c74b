//! `find_run`: finds a run by its idempotency key.

use rusqlite::{OptionalExtension, params};
use tidemill_core::Error;
use tidemill_core::workflow::{RunId, WorkflowName};

use crate::connection::Tx;
use crate::error::RequestError;
use crate::store::SqliteStore;

pub(crate) async fn find_run(
    store: &SqliteStore,
    workflow: &WorkflowName,
    key: &str,
) -> Result<Option<RunId>, Error> {
    let (workflow, key) = (workflow.clone(), key.to_owned());
    store.read(move |tx: &mut Tx<'_>| run_with_key(tx, &workflow, &key)).await
}

/// The run that has a key.
pub(super) fn run_with_key(
    tx: &Tx<'_>,
    workflow: &WorkflowName,
    key: &str,
) -> Result<Option<RunId>, RequestError> {
    let mut find = tx.connection.prepare_cached(sql!("runs/find_run"))?;
    let id = find.query_row(params![workflow.as_str(), key], |row| row.get::<_, String>(0)).optional()?;
    Ok(id.map(|id| RunId::new(&id)).transpose()?)
}
