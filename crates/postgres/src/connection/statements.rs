//! Statements as functions of a schema, so that a connection needs no settings.
//!
//! A connection may go through a pooler, where clients share it: the next client of the pool
//! inherits every session setting. So each statement is installed as a function with its own
//! settings, and the store sends a call of that function by its full name.

use std::collections::HashMap;
use std::sync::Arc;

use tidemill_core::Error;
use tokio_postgres::types::{Field, Kind, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::error::classify;
use crate::sql::{STATEMENTS, Sql};

/// The settings of every function that is called from outside, in addition to its `search_path`.
///
/// The planner must use indexes, whatever the statistics say about table sizes. A queue is empty
/// when statistics are gathered and full a second later, and a plan for the one is ruinous for the
/// other.
const SETTINGS: [&str; 7] = [
    "enable_seqscan = off",
    "enable_bitmapscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    "plan_cache_mode = force_generic_plan",
    "jit = off",
    "lock_timeout = '5s'",
];

/// How a statement is sent.
#[derive(Debug)]
pub(crate) struct StatementCall {
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) types: Vec<Type>,
}

impl StatementCall {
    /// A statement that is sent as it is written.
    pub(crate) fn plain(sql: &'static Sql, schema: &str, types: &[Type]) -> Self {
        Self { name: sql.name, text: sql.render(schema), types: types.to_vec() }
    }

    /// A call of the function that runs the statement.
    fn of_function(sql: &'static Sql, schema: &str, types: Vec<Type>) -> Self {
        let text = match sql.called() {
            Some(_) => sql.render(schema),
            None => {
                let params: Vec<String> = (1..=types.len()).map(|index| format!("${index}")).collect();
                format!("SELECT * FROM \"{schema}\".{}({})", sql.function(), params.join(", "))
            }
        };
        Self { name: sql.name, text, types }
    }

    /// Whether some parameter has a type of the schema.
    pub(crate) fn has_row_types(&self) -> bool {
        self.types.iter().any(|r#type| Type::from_oid(r#type.oid()).is_none())
    }
}

/// The calls of every statement in one schema.
#[derive(Debug)]
pub(crate) struct StatementCalls(HashMap<&'static str, Arc<StatementCall>>);

impl StatementCalls {
    /// Reads the parameter types of the schema's functions from the catalog.
    pub(crate) async fn load(client: &Client, schema: &str) -> Result<Self, tokio_postgres::Error> {
        let text = "SELECT proname::text AS name, proargtypes::oid[] AS types FROM pg_catalog.pg_proc
            WHERE pronamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1::text)";
        let rows = client.query_typed(text, &[(&schema, Type::TEXT)]).await?;
        let row_types = RowTypes::load(client, schema).await?;
        let mut types: HashMap<String, Vec<Type>> =
            rows.iter().filter_map(|row| Some((row.get("name"), row_types.params(row)?))).collect();
        let calls = STATEMENTS.iter().filter_map(|sql| {
            Some((sql.name, StatementCall::of_function(sql, schema, types.remove(&sql.function())?).into()))
        });
        Ok(Self(calls.collect()))
    }

    pub(crate) fn get(&self, sql: &'static Sql) -> Result<Arc<StatementCall>, Error> {
        let missing = || Error::Unsuitable(format!("the schema has no function for {}", sql.name));
        self.0.get(sql.name).cloned().ok_or_else(missing)
    }
}

/// The row types of a schema and their arrays, by oid.
struct RowTypes(HashMap<u32, Type>);

impl RowTypes {
    async fn load(client: &Client, schema: &str) -> Result<Self, tokio_postgres::Error> {
        let text = "SELECT type.oid, type.typarray AS array_oid, type.typname::text AS name,
                array_agg(attname::text ORDER BY attnum) AS fields, array_agg(atttypid ORDER BY attnum) AS types
            FROM pg_catalog.pg_type AS type JOIN pg_catalog.pg_class AS class ON class.oid = type.typrelid
                JOIN pg_catalog.pg_attribute ON attrelid = class.oid
            WHERE class.relkind = 'c' AND class.relnamespace
                = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1::text)
            GROUP BY type.oid, type.typarray, type.typname";
        let rows = client.query_typed(text, &[(&schema, Type::TEXT)]).await?;
        let types = rows.iter().filter_map(|row| row_type(row, schema)).flatten();
        Ok(Self(types.map(|r#type| (r#type.oid(), r#type)).collect()))
    }

    /// The parameter types of a function.
    fn params(&self, function: &Row) -> Option<Vec<Type>> {
        let find = |oid| Type::from_oid(oid).or_else(|| self.0.get(&oid).cloned());
        function.get::<_, Vec<u32>>("types").into_iter().map(find).collect()
    }
}

/// A row type and its array.
fn row_type(row: &Row, schema: &str) -> Option<[Type; 2]> {
    let names: Vec<String> = row.get("fields");
    let types: Option<Vec<Type>> = row.get::<_, Vec<u32>>("types").into_iter().map(Type::from_oid).collect();
    let fields = names.into_iter().zip(types?).map(|(name, r#type)| Field::new(name, r#type)).collect();
    let name: String = row.get("name");
    let one = Type::new(name.clone(), row.get("oid"), Kind::Composite(fields), schema.to_owned());
    let many =
        Type::new(format!("_{name}"), row.get("array_oid"), Kind::Array(one.clone()), schema.to_owned());
    Some([one, many])
}

/// Creates a function for every statement. The transaction's `search_path` is the schema.
pub(crate) async fn install(client: &Client, schema: &str) -> Result<(), Error> {
    let failed = |error| classify("installing the statements", error);
    let own = || STATEMENTS.iter().filter(|sql| sql.called().is_none());
    // A function whose result columns have changed cannot be replaced, so all are dropped first.
    let mut script = drop_functions(&own().map(|sql| sql.function()).collect::<Vec<_>>());
    for sql in own() {
        // Prepared and closed inside this transaction.
        let statement = client.prepare(sql.text).await.map_err(failed)?;
        script.push_str(&define(sql, &statement));
    }
    let all: Vec<String> = STATEMENTS.iter().map(|sql| sql.function()).collect();
    script.push_str(&set_settings(&all, schema));
    client.batch_execute(&script).await.map_err(failed)
}

/// The function that runs a statement and returns its rows, or how many it changed.
fn define(sql: &Sql, statement: &Statement) -> String {
    let name = |r#type: &Type| format!("\"{}\".\"{}\"", r#type.schema(), r#type.name());
    let parameters: Vec<String> = statement.params().iter().map(name).collect();
    let column = |column: &tokio_postgres::Column| format!("\"{}\" {}", column.name(), name(column.type_()));
    let columns: Vec<String> = statement.columns().iter().map(column).collect();
    let (returns, body) = if columns.is_empty() {
        let count = "GET DIAGNOSTICS affected_rows = ROW_COUNT; RETURN affected_rows;";
        (
            "bigint".to_owned(),
            format!("DECLARE affected_rows bigint; BEGIN\n{};\n{count}", sql.text.trim_end()),
        )
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

/// A script that drops functions, whatever their parameters.
fn drop_functions(names: &[String]) -> String {
    for_each(names, "EXECUTE format('DROP FUNCTION %s', name);")
}

/// A script that sets the settings of functions.
fn set_settings(names: &[String], schema: &str) -> String {
    let settings = SETTINGS.iter().map(|setting| (*setting).to_owned());
    let alter = settings.chain([format!("search_path = \"{schema}\", pg_temp")]);
    let alter = alter.map(|setting| {
        format!("EXECUTE format('ALTER FUNCTION %s SET {}', name);", setting.replace('\'', "''"))
    });
    for_each(names, &alter.collect::<Vec<_>>().join("\n"))
}

fn for_each(names: &[String], statements: &str) -> String {
    format!(
        "DO $each$ DECLARE name regprocedure; BEGIN
         FOR name IN SELECT oid FROM pg_proc
             WHERE pronamespace = current_schema()::regnamespace AND proname = ANY ('{{{}}}')
         LOOP
         {statements}
         END LOOP; END $each$;
         ",
        names.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many parameters a text has.
    fn parameters(text: &str) -> usize {
        (1..).take_while(|index| text.contains(&format!("${index}"))).count()
    }

    #[test]
    fn a_statement_that_is_sent_as_a_call_passes_its_parameters_in_order() {
        for sql in STATEMENTS.iter().filter(|sql| sql.called().is_some()) {
            let (_, call) = sql.text.split_once("tidemill.").unwrap();
            let params: Vec<String> = (1..=parameters(sql.text)).map(|index| format!("${index}")).collect();
            let written: String = call.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(written.contains(&format!("({})", params.join(", "))), "{}", sql.name);
        }
    }
}
