//! Migration of the schema to the version of this build, once, however many processes start at the
//! same time.

use std::time::Duration;

use tidemill_core::Error;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::{Connection, Pool, PooledConnection, StatementCalls, TypedParams, install};
use crate::error::classify;
use crate::functions::FUNCTIONS;
use crate::sql::{RIGHTS, SCHEMA_STATE, Sql, VERSION};

/// The migrations, oldest first; the first is version 1.
const MIGRATIONS: [&str; 5] = [
    include_str!("../migrations/0001_jobs.sql"),
    include_str!("../migrations/0002_chains.sql"),
    include_str!("../migrations/0003_runs.sql"),
    include_str!("../migrations/0004_fleet.sql"),
    include_str!("../migrations/0005_row_types.sql"),
];

/// The oldest server version that supports all statements.
const MIN_SERVER_VERSION: i32 = 130_000;

/// How long to wait for another process that may be migrating a large table.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Migrates the schema if necessary, and checks the rights on it.
pub(crate) async fn migrate(pool: &Pool) -> Result<(), Error> {
    let mut held = pool.acquire().await?;
    let work = Migration { pool, schema: &pool.connector.schema, held: &mut held };
    match timeout(MIGRATION_TIMEOUT, work.run()).await {
        Ok(done) => done,
        Err(elapsed) => Err(Error::unavailable("migrating the schema took too long", elapsed)),
    }
}

struct Migration<'a, 'p> {
    pool: &'a Pool,
    schema: &'a str,
    held: &'a mut PooledConnection<'p>,
}

impl Migration<'_, '_> {
    async fn run(mut self) -> Result<(), Error> {
        let state = self.state().await?;
        if state.server < MIN_SERVER_VERSION {
            let major = state.server / 10_000;
            return Err(Error::Unsuitable(format!("PostgreSQL 13 or later is needed; this is {major}")));
        }
        if self.version(&state).await? < latest() {
            self.upgrade(&state).await?;
        }
        let answer = StatementCalls::load(&self.held.connection()?.client, self.schema).await;
        self.pool.set_calls(self.held.check("looking at the functions", answer)?);
        self.check_rights().await
    }

    /// Runs a statement that has no function yet, inside or outside of a transaction.
    async fn ask(&mut self, sql: &Sql, params: TypedParams<'_>) -> Result<Vec<Row>, Error> {
        let text = sql.render(self.schema);
        let answer = self.held.connection()?.client.query_typed(&text, params).await;
        self.held.check("looking at the schema", answer)
    }

    async fn state(&mut self) -> Result<SchemaState, Error> {
        let schema = self.schema;
        let rows = self.ask(&SCHEMA_STATE, &[(&schema, Type::TEXT)]).await?;
        rows.first()
            .map(SchemaState::from_row)
            .ok_or_else(|| Error::Corrupt("the server returned no rows".into()))
    }

    /// The version of the schema; 0 if there is none.
    async fn version(&mut self, state: &SchemaState) -> Result<usize, Error> {
        if !state.migrated {
            return Ok(0);
        }
        if !state.may_use {
            return Err(self.lacks(state, format!("USAGE on schema {}", self.schema)));
        }
        let rows = self.ask(&VERSION, &[]).await?;
        let version: i32 = rows.first().map_or(0, |row| row.get("version"));
        let version = usize::try_from(version).unwrap_or(0);
        if version > latest() {
            return Err(Error::Unsuitable(format!(
                "schema {} is at version {version} and this build knows {} only: use a newer build",
                self.schema,
                latest()
            )));
        }
        Ok(version)
    }

    /// Runs the missing migrations in one transaction. The advisory lock serializes processes that
    /// start together, and all but the first find nothing left to do.
    async fn upgrade(&mut self, state: &SchemaState) -> Result<(), Error> {
        self.check_may_create(state)?;
        self.batch(&format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL search_path = \"{}\", pg_temp;
             SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = '60s';
             SET LOCAL idle_in_transaction_session_timeout = '10s';
             SELECT pg_advisory_xact_lock(hashtextextended('tidemill {}', 0))",
            self.schema, self.schema
        ))
        .await?;
        let state = self.state().await?;
        if !state.exists {
            self.batch(&format!("CREATE SCHEMA \"{}\"", self.schema)).await?;
        }
        if !state.migrated {
            self.batch("CREATE TABLE migrations (version integer PRIMARY KEY, at timestamptz DEFAULT now())")
                .await?;
        }
        let state = self.state().await?;
        let done = self.version(&state).await?;
        for (version, migration) in (1..).zip(MIGRATIONS).skip(done) {
            self.batch(migration).await?;
            self.batch(&format!("INSERT INTO migrations VALUES ({version})")).await?;
        }
        for function in FUNCTIONS {
            self.batch(function).await?;
        }
        install(&self.held.connection()?.client, self.schema).await?;
        self.batch("COMMIT").await
    }

    fn check_may_create(&self, state: &SchemaState) -> Result<(), Error> {
        if !state.exists && !state.may_create_schema {
            return Err(self.lacks(state, format!("CREATE on database {}", state.database)));
        }
        if state.exists && !(state.may_create && state.may_use) {
            return Err(self.lacks(state, format!("USAGE, CREATE on schema {}", self.schema)));
        }
        Ok(())
    }

    async fn check_rights(&mut self) -> Result<(), Error> {
        let call = self.pool.call(&RIGHTS)?;
        let answer = self.held.connection()?.query(&call, &[]).await;
        let missing: Vec<String> =
            self.held.check("looking at rights", answer)?.iter().map(|row| row.get("lacks")).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let state = self.state().await?;
        Err(self.lacks(&state, format!("{} in schema {}", missing.join(", "), self.schema)))
    }

    fn lacks(&self, state: &SchemaState, right: String) -> Error {
        Error::Denied(format!("role {} lacks {right}", state.role))
    }

    async fn batch(&mut self, statements: &str) -> Result<(), Error> {
        let connection: &mut Connection = self.held.connection()?;
        // The connection is not marked reusable: a transaction that stays open must not return to
        // the pool.
        connection
            .client
            .batch_execute(statements)
            .await
            .map_err(|error| classify("migrating the schema", error))
    }
}

/// The schema version of this build.
pub(crate) fn latest() -> usize {
    MIGRATIONS.len()
}

/// The state of the schema before anything is changed.
struct SchemaState {
    database: String,
    role: String,
    server: i32,
    exists: bool,
    migrated: bool,
    may_create_schema: bool,
    may_create: bool,
    may_use: bool,
}

impl SchemaState {
    fn from_row(row: &Row) -> Self {
        Self {
            database: row.get("database"),
            role: row.get("role"),
            server: row.get("server"),
            exists: row.get("exists"),
            migrated: row.get("migrated"),
            may_create_schema: row.get("may_create_schema"),
            may_create: row.get("may_create"),
            may_use: row.get("may_use"),
        }
    }
}
