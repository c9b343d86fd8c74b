//! `start`: marks leased jobs as started.

use tidemill_core::store::{StartParams, Verdict};
use tidemill_core::{Error, Token};

use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::row::{self};
use crate::store::SqliteStore;

pub(crate) async fn start(store: &SqliteStore, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
    let tokens: Vec<_> = start.leases.iter().map(|lease| lease.token).collect();
    store
        .write(Cost::change(tokens.len()), move |tx| {
            tokens.iter().map(|token| start_one(tx, *token)).collect()
        })
        .await
}

fn start_one(tx: &Tx<'_>, token: Token) -> Result<Verdict, RequestError> {
    let (claim, seq) = row::claim_and_seq(token);
    let mut start = tx.connection.prepare_cached(sql!("jobs/start"))?;
    let started = start.execute([seq, claim])? == 1;
    Ok(if started { Verdict::Accepted } else { Verdict::LeaseLost })
}
