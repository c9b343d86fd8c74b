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
        let answer = {
            let mut state = self.shared.lock();
            let found = state.queries.iter().find(|(known, _)| *known == name);
            let answer = found.map(|(_, answer)| Arc::clone(answer));
            let answer = answer.ok_or_else(|| QueryError::Unknown(name.to_owned()))?;
            state.begin_read_only();
            answer
        };
        let answered = catch_unwind(AssertUnwindSafe(|| answer(input)));
        let asked = self.shared.lock().end_read_only();
        let query = name.to_owned();
        match (answered, asked) {
            (Err(panic), _) => Err(QueryError::Panicked { query, message: panic_message(panic.as_ref()) }),
            (Ok(_), Some(asked)) => Err(QueryError::Changes { query, asked }),
            (Ok(answer), None) => answer,
        }
    }
}
