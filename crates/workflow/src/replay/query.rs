//! `query`: runs a query handler of the code.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tidemill_core::workflow::Json;

use super::Replayer;
use super::executor::panic_message;
use crate::error::QueryError;

impl Replayer {
    /// Answers a query from the code's current state. Works on ended runs too.
    pub fn query(&mut self, name: &str, input: &Json) -> Result<Json, QueryError> {
        let handler = {
            let mut state = self.shared.lock();
            let found = state.queries.iter().find(|(registered, _)| *registered == name);
            let handler = found.map(|(_, handler)| Arc::clone(handler));
            let handler = handler.ok_or_else(|| QueryError::Unknown(name.to_owned()))?;
            state.begin_read_only();
            handler
        };
        let answered = catch_unwind(AssertUnwindSafe(|| handler(input)));
        let command = self.shared.lock().end_read_only();
        let query = name.to_owned();
        match (answered, command) {
            (Err(panic), _) => Err(QueryError::Panicked { query, message: panic_message(panic.as_ref()) }),
            (Ok(_), Some(command)) => Err(QueryError::Changes { query, asked: command }),
            (Ok(answer), None) => answer,
        }
    }
}
