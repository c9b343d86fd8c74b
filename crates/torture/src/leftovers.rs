//! Data that is left in a store, apart from its schema and its registry of queues. Read without
//! Tidemill.

use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::Connection;
use tidemill_testkit::servers::Redis;

use crate::test_store::TestStore;

/// Lists every key with data. Consumers of killed workers and the lengths of their leases are
/// removed ten minutes later; receipts expire; an empty stream keeps the position of its group.
const SCRIPT: &str = r"
local left = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  local size = 1
  if string.find(key, ':queues$') or string.find(key, ':receipt:') or string.find(key, ':leases$') then
    size = 0
  elseif kind == 'stream' then
    size = redis.call('XLEN', key)
    for _, group in ipairs(redis.call('XINFO', 'GROUPS', key)) do
      for i = 1, #group, 2 do
        if group[i] == 'pending' then size = size + group[i + 1] end
      end
    end
  elseif kind == 'zset' then
    size = redis.call('ZCARD', key)
  end
  if size > 0 then left[#left + 1] = size .. ' in the ' .. kind .. ' ' .. key end
end
return table.concat(left, '\n')";

const SQLITE_TABLES: [&str; 6] = ["jobs", "waiting", "running", "records", "blocked", "blocks"];

const POSTGRES_TABLES: [&str; 3] = ["jobs", "ready", "leases"];

/// Lists the remaining data of the store.
pub async fn list(store: &TestStore) -> Result<Vec<String>> {
    match store {
        TestStore::Sqlite(folder) => in_sqlite(&folder.path().join("jobs.db")),
        TestStore::Redis(_) | TestStore::Cluster(_) => in_redis(store.redis_servers()),
        TestStore::Postgres(_, database) => in_postgres(database).await,
    }
}

fn in_sqlite(path: &Path) -> Result<Vec<String>> {
    let connection = Connection::open(path)?;
    let mut left = Vec::new();
    for table in SQLITE_TABLES {
        let count = |row: &rusqlite::Row<'_>| row.get(0);
        let rows: i64 = connection.query_row(&format!("SELECT count(*) FROM tidemill_{table}"), [], count)?;
        left.extend((rows > 0).then(|| format!("{rows} rows in {table}")));
    }
    Ok(left)
}

fn in_redis(servers: &[Redis]) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for server in servers {
        let keys = server.command(&["EVAL", SCRIPT, "0"])?;
        left.extend(keys.lines().map(str::to_owned));
    }
    Ok(left)
}

async fn in_postgres(database: &str) -> Result<Vec<String>> {
    let (client, connection) = tokio_postgres::connect(database, tokio_postgres::NoTls).await?;
    let connection = tokio::spawn(connection);
    let mut left = Vec::new();
    for table in POSTGRES_TABLES {
        let query = format!("SELECT count(*) FROM tidemill.{table}");
        let rows: i64 = client.query_one(&query, &[]).await.context(query)?.get(0);
        left.extend((rows > 0).then(|| format!("{rows} rows in {table}")));
    }
    drop(client);
    connection.await??;
    Ok(left)
}
