//! Statements as functions of a schema, so that a connection needs no settings.
//!
//! A connection may lead through a pooler, where it is everybody's: whatever a session is told, the next client of the
//! pool inherits. So each statement is installed as a function that brings its settings along, and what is sent is a
//! call of it by its full name.

use std::collections::HashMap;

use tidemill_core::Error;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement};

use crate::error::classify;
use crate::sql::{STATEMENTS, Sql};

/// What every function that is called from outside is set to, beside its `search_path`.
///
/// The planner is told to walk indexes, whatever it believes about the sizes of tables: a queue is empty when statistics
/// are gathered and full a second later, and a plan made for the one is ruinous for the other.
const SETTINGS: [&str; 7] = [
    "enable_seqscan = off",
    "enable_bitmapscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    "plan_cache_mode = force_generic_plan",
    "jit = off",
    "lock_timeout = '5s'",
];

/// A statement as it is sent.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) types: Vec<Type>,
}

impl Call {
    /// A statement that is sent as it is written.
    pub(crate) fn plain(sql: &'static Sql, schema: &str, types: &[Type]) -> Self {
        Self { name: sql.name, text: sql.render(schema), types: types.to_vec() }
    }

    /// A call of the function that does the statement's work.
    fn of(sql: &'static Sql, schema: &str, types: Vec<Type>) -> Self {
        let text = match sql.called() {
            Some(_) => sql.render(schema),
            None => {
                let places: Vec<String> = (1..=types.len()).map(|place| format!("${place}")).collect();
                format!("SELECT * FROM \"{schema}\".{}({})", sql.function(), places.join(", "))
            }
        };
        Self { name: sql.name, text, types }
    }
}

/// The calls of every statement in one schema.
#[derive(Debug)]
pub(crate) struct Calls(HashMap<&'static str, Call>);

impl Calls {
    /// Reads from the catalog which parameters the functions of the schema have.
    pub(crate) async fn load(client: &Client, schema: &str) -> Result<Self, tokio_postgres::Error> {
        let text = "SELECT proname::text AS name, proargtypes::oid[] AS types FROM pg_catalog.pg_proc
            WHERE pronamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1::text)";
        let rows = client.query_typed(text, &[(&schema, Type::TEXT)]).await?;
        let mut types: HashMap<String, Vec<Type>> =
            rows.iter().filter_map(|row| Some((row.get("name"), types_of(row)?))).collect();
        let calls = STATEMENTS
            .iter()
            .filter_map(|sql| Some((sql.name, Call::of(sql, schema, types.remove(&sql.function())?))));
        Ok(Self(calls.collect()))
    }

    pub(crate) fn get(&self, sql: &'static Sql) -> Result<&Call, Error> {
        let missing = || Error::Unsuitable(format!("the schema has no function for {}", sql.name));
        self.0.get(sql.name).ok_or_else(missing)
    }
}

fn types_of(row: &Row) -> Option<Vec<Type>> {
    row.get::<_, Vec<u32>>("types").into_iter().map(Type::from_oid).collect()
}

/// Makes a function of every statement. The transaction's `search_path` is the schema.
pub(crate) async fn install(client: &Client, schema: &str) -> Result<(), Error> {
    let failed = |error| classify("installing the statements", error);
    let own = || STATEMENTS.iter().filter(|sql| sql.called().is_none());
    // A function whose columns have changed cannot be replaced.
    let mut script = remove(&own().map(|sql| sql.function()).collect::<Vec<_>>());
    for sql in own() {
        // Dropped and closed inside this transaction.
        let statement = client.prepare(sql.text).await.map_err(failed)?;
        script.push_str(&define(sql, &statement));
    }
    let all: Vec<String> = STATEMENTS.iter().map(|sql| sql.function()).collect();
    script.push_str(&set(&all, schema));
    client.batch_execute(&script).await.map_err(failed)
}

/// The function that runs a statement and returns its rows, or how many it touched.
fn define(sql: &Sql, statement: &Statement) -> String {
    let name = |of: &Type| format!("pg_catalog.\"{}\"", of.name());
    let parameters: Vec<String> = statement.params().iter().map(name).collect();
    let column = |column: &tokio_postgres::Column| format!("\"{}\" {}", column.name(), name(column.type_()));
    let columns: Vec<String> = statement.columns().iter().map(column).collect();
    let (returns, body) = if columns.is_empty() {
        let count = "GET DIAGNOSTICS touched = ROW_COUNT; RETURN touched;";
        ("bigint".to_owned(), format!("DECLARE touched bigint; BEGIN\n{};\n{count}", sql.text.trim_end()))
    } else {
        (format!("TABLE ({})", columns.join(", ")), format!("BEGIN RETURN QUERY\n{};\n", sql.text.trim_end()))
    };
    format!(
        "CREATE FUNCTION {}({}) RETURNS {returns} LANGUAGE plpgsql AS $statement$
         #variable_conflict use_column\n{body} END $statement$;\n",
        sql.function(),
        parameters.join(", ")
    )
}

/// Removes functions, whatever their parameters.
fn remove(names: &[String]) -> String {
    for_each(names, "EXECUTE format('DROP FUNCTION %s', name);")
}

/// Gives functions their settings.
fn set(names: &[String], schema: &str) -> String {
    let settings = SETTINGS.iter().map(|setting| (*setting).to_owned());
    let alter = settings.chain([format!("search_path = \"{schema}\", pg_temp")]);
    let alter = alter.map(|setting| {
        format!("EXECUTE format('ALTER FUNCTION %s SET {}', name);", setting.replace('\'', "''"))
    });
    for_each(names, &alter.collect::<Vec<_>>().join("\n"))
}

fn for_each(names: &[String], act: &str) -> String {
    format!(
        "DO $each$ DECLARE name regprocedure; BEGIN
         FOR name IN SELECT oid FROM pg_proc
             WHERE pronamespace = current_schema()::regnamespace AND proname = ANY ('{{{}}}')
         LOOP\n{act}\nEND LOOP; END $each$;\n",
        names.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What follows the last parameter's place.
    fn parameters(text: &str) -> usize {
        (1..).take_while(|place| text.contains(&format!("${place}"))).count()
    }

    #[test]
    fn a_statement_that_is_sent_as_a_call_passes_its_parameters_in_order() {
        for sql in STATEMENTS.iter().filter(|sql| sql.called().is_some()) {
            let (_, call) = sql.text.split_once("tidemill.").unwrap();
            let places: Vec<String> = (1..=parameters(sql.text)).map(|place| format!("${place}")).collect();
            let written: String = call.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(written.contains(&format!("({})", places.join(", "))), "{}", sql.name);
        }
    }
}
