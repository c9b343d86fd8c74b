//! `deliver`: appends events to the journals of runs.

use tidemill_core::Error;
use tidemill_core::store::runs::{Delivered, Delivery};
use tidemill_core::wake::Wake;
use tokio_postgres::types::ToSql;

use super::{EventArgs, status_from_code};
use crate::Inner;
use crate::jobs::{no_rows, wake_texts};
use crate::sql::DELIVER;

impl Inner {
    /// Appends events to journals, and announces the tasks that this creates.
    pub(crate) async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
        if deliveries.is_empty() {
            return Ok(Vec::new());
        }
        let events = || deliveries.iter().map(EventArgs::new);
        let runs: Vec<&str> = events().map(|event| event.run).collect();
        let kinds: Vec<i16> = events().map(|event| event.kind).collect();
        let entries: Vec<&[u8]> = events().map(|event| event.entry).collect();
        let ids: Vec<Option<&[u8]>> = events().map(|event| event.id).collect();
        let seqs: Vec<Option<i64>> = events().map(|event| event.seq).collect();
        let params: [&(dyn ToSql + Sync); 5] = [&runs, &kinds, &entries, &ids, &seqs];
        let rows = self.pool.query(&DELIVER, &params).await?;
        let row = rows.first().ok_or_else(no_rows)?;
        self.announce_texts(wake_texts(row)).await;
        let results: Result<Vec<_>, _> =
            row.get::<_, Vec<i16>>("answers").into_iter().map(delivered_from_code).collect();
        if results.as_ref().is_ok_and(|results| results.contains(&Delivered::Duplicate)) {
            // The result of the first delivery may have been lost, and with it the queue to wake.
            self.bus.publish(Wake::Everything);
        }
        self.bus.flush().await;
        results
    }
}

fn delivered_from_code(code: i16) -> Result<Delivered, Error> {
    match code {
        0 => Ok(Delivered::Yes),
        -1 => Ok(Delivered::NotFound),
        -2 => Ok(Delivered::Duplicate),
        status => Ok(Delivered::Closed(status_from_code(status)?)),
    }
}
