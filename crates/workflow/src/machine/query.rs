//! Asking a run without changing it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tidemill_core::workflow::Json;

use super::Machine;
use super::executor::message;
use crate::error::QueryError;

impl Machine {
    /// Answers a query from what the code has come to so far. An ended run answers too.
    pub fn query(&mut self, name: &str, input: &Json) -> Result<Json, QueryError> {
        let answer = {
            let mut state = self.shared.lock();
            let found = state.queries.iter().find(|(known, _)| *known == name);
            let answer = found.map(|(_, answer)| Arc::clone(answer));
            let answer = answer.ok_or_else(|| QueryError::Unknown(name.to_owned()))?;
            state.bar();
            answer
        };
        let answered = catch_unwind(AssertUnwindSafe(|| answer(input)));
        let asked = self.shared.lock().unbar();
        let query = name.to_owned();
        match (answered, asked) {
            (Err(panic), _) => Err(QueryError::Panicked { query, message: message(panic.as_ref()) }),
            (Ok(_), Some(asked)) => Err(QueryError::Changes { query, asked }),
            (Ok(answer), None) => answer,
        }
    }
}
