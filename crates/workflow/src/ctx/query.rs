//! Query handlers.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::workflow::Json;

use super::Ctx;
use crate::definition::Query;
use crate::error::QueryError;
use crate::state::QueryHandler;

impl Ctx {
    /// Answers queries of this name from now on. The handler reads what it captured, usually an
    /// `Arc<Mutex<…>>` that the workflow updates. It must not issue commands.
    pub fn on_query<I, O, F>(&self, query: &Query<I, O>, handler: F)
    where
        I: DeserializeOwned,
        O: Serialize,
        F: Fn(I) -> O + Send + Sync + 'static,
    {
        let name = query.name();
        let handler: QueryHandler = Arc::new(move |input| run_handler(name, input, &handler));
        let mut state = self.shared.lock();
        let earlier = state.queries.iter().position(|(registered, _)| *registered == name);
        let replaced = match earlier {
            Some(index) => Some(std::mem::replace(&mut state.queries[index].1, handler)),
            None => {
                state.queries.push((name, handler));
                None
            }
        };
        // Its captures may hold a `Ctx`, whose drop may take the lock.
        drop(state);
        drop(replaced);
    }
}

fn run_handler<I: DeserializeOwned, O: Serialize>(
    name: &str,
    input: &Json,
    handler: &impl Fn(I) -> O,
) -> Result<Json, QueryError> {
    let unreadable =
        |error: serde_json::Error| QueryError::Unreadable { query: name.into(), message: error.to_string() };
    let output = handler(input.read().map_err(unreadable)?);
    Json::from_value(&output).map_err(unreadable)
}
