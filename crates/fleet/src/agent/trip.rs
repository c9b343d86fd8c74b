//! One trip to the store: who has left, who is new, who lives.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::{BeatParams, WorkerEntry, WorkerOrders, WorkerStatus};
use tidemill_core::{Error, Store};
use tokio::time::timeout;

use crate::terms::GRACE;

/// How long the store may take to answer. Stores have deadlines of their own; this is for the day theirs fail.
const ANSWER: Duration = Duration::from_secs(10);

/// What to tell the store.
#[derive(Debug, Default)]
pub(super) struct Trip {
    pub(super) parting: Vec<WorkerKey>,
    pub(super) joining: Vec<(u64, WorkerEntry)>,
    /// Those that the store knows.
    pub(super) living: Vec<(u64, WorkerEntry)>,
}

/// What came of it, as far as it came.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) parted: Vec<WorkerKey>,
    pub(super) joined: Vec<u64>,
    /// With whether the store was told that it drains.
    pub(super) heard: Vec<(u64, WorkerOrders, WorkerStatus)>,
    pub(super) error: Option<Error>,
}

impl Trip {
    pub(super) async fn run(self, store: Arc<dyn Store>) -> Answer {
        let mut answer = Answer::default();
        answer.error = self.each(&*store, &mut answer).await.err();
        answer
    }

    /// Those that leave first: if nothing else gets through, nobody is sent to them.
    async fn each(self, store: &dyn Store, answer: &mut Answer) -> Result<(), Error> {
        let fleet = store.fleet();
        if !self.parting.is_empty() {
            within("part", fleet.part(&self.parting)).await?;
            answer.parted = self.parting;
        }
        if !self.joining.is_empty() {
            let (numbers, members): (Vec<_>, Vec<_>) = self.joining.into_iter().unzip();
            within("join", fleet.join(&members)).await?;
            answer.joined = numbers;
        }
        if !self.living.is_empty() {
            let (numbers, members): (Vec<_>, Vec<_>) = self.living.into_iter().unzip();
            let orders = within("beat", fleet.beat(BeatParams { workers: &members, grace: GRACE })).await?;
            let statuses = members.iter().map(|member| member.status);
            let heard = numbers.into_iter().zip(orders).zip(statuses);
            answer.heard = heard.map(|((number, orders), status)| (number, orders, status)).collect();
        }
        Ok(())
    }
}

/// The answer of `call`, or that there was none in time.
pub(super) async fn within<T>(what: &str, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(ANSWER, call).await.unwrap_or_else(|_| {
        let message = format!("{what} was not answered within {ANSWER:?}");
        Err(Error::Unavailable { message, source: None })
    })
}
