//! Finding a run by its idempotency key.

use tidemill_core::Error;
use tidemill_core::workflow::{RunId, WorkflowName};

use crate::connection::reply::text;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn find_run(&self, workflow: &WorkflowName, key: &str) -> Result<Option<RunId>, Error> {
        // Runs with a key are in the shard of the key.
        let shard = self.keys.shard_of_run(&RunId::keyed(workflow, key));
        let get = redis::cmd("GET").arg(self.keys.run_key(shard, workflow, key)).take();
        let run = text(self.connections.query(shard, &get).await?);
        let corrupt = |error| Error::Corrupt(format!("key `{key}` of workflow `{workflow}`: {error}"));
        run.map(|run| RunId::new(&run).map_err(corrupt)).transpose()
    }
}
