//! `extend`: extends the leases of running jobs.

use std::collections::HashMap;

use tidemill_core::Error;
use tidemill_core::store::{ExtendParams, Extended};

use super::{ms, number, sorted};
use crate::Inner;
use crate::sql::EXTEND;

impl Inner {
    pub(crate) async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
        if extend.leases.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.pool.query(&EXTEND, &[&sorted(extend.leases), &ms(extend.lease)]).await?;
        let current: HashMap<i64, bool> =
            rows.iter().map(|row| (row.get("seq"), row.get("cancelling"))).collect();
        let held = |cancelling: Option<&bool>| match cancelling {
            Some(false) => Extended::Yes,
            Some(true) => Extended::Cancelling,
            None => Extended::Lost,
        };
        Ok(extend.leases.iter().map(|lease| held(current.get(&number(lease)))).collect())
    }
}
