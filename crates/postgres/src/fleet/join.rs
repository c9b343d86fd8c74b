//! `join`: enters workers into the fleet.

use tidemill_core::Error;
use tidemill_core::store::fleet::WorkerEntry;

use super::call;
use super::member_row::MemberRow;
use crate::Inner;
use crate::sql::JOIN;

pub(super) async fn join(inner: &Inner, workers: &[WorkerEntry]) -> Result<(), Error> {
    if workers.is_empty() {
        return Ok(());
    }
    call(inner, &JOIN, &[&MemberRow::from_workers(workers)?]).await.map(drop)
}
