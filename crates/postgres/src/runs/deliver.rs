//! Telling runs what happened.

use tidemill_core::Error;
use tidemill_core::store::runs::{Delivered, Delivery};
use tidemill_core::wake::Wake;
use tokio_postgres::types::ToSql;

use super::{Telling, status_of};
use crate::Inner;
use crate::jobs::{nothing, woken};
use crate::sql::DELIVER;

impl Inner {
    /// Appends events to journals, and announces the tasks that this makes.
    pub(crate) async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
        if deliveries.is_empty() {
            return Ok(Vec::new());
        }
        let events = || deliveries.iter().map(Telling::of);
        let runs: Vec<&str> = events().map(|event| event.run).collect();
        let kinds: Vec<i16> = events().map(|event| event.kind).collect();
        let entries: Vec<&[u8]> = events().map(|event| event.entry).collect();
        let ids: Vec<Option<&[u8]>> = events().map(|event| event.id).collect();
        let seqs: Vec<Option<i64>> = events().map(|event| event.seq).collect();
        let params: [&(dyn ToSql + Sync); 5] = [&runs, &kinds, &entries, &ids, &seqs];
        let rows = self.pool.query(&DELIVER, &params).await?;
        let row = rows.first().ok_or_else(nothing)?;
        self.announce_woken(woken(row)).await;
        let answers: Result<Vec<_>, _> =
            row.get::<_, Vec<i16>>("answers").into_iter().map(delivered).collect();
        if answers.as_ref().is_ok_and(|answers| answers.contains(&Delivered::Duplicate)) {
            // The answer to the call that delivered it may have been lost, and with it the queue of the run.
            self.bus.publish(Wake::Everything);
        }
        self.bus.flush().await;
        answers
    }
}

fn delivered(code: i16) -> Result<Delivered, Error> {
    match code {
        0 => Ok(Delivered::Yes),
        -1 => Ok(Delivered::NotFound),
        -2 => Ok(Delivered::Duplicate),
        status => Ok(Delivered::Closed(status_of(status)?)),
    }
}
