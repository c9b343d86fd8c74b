//! Delivering events to runs.

use futures_util::future::try_join_all;
use redis::Value;
use tidemill_core::Error;
use tidemill_core::store::runs::{Delivered, Delivery};
use tidemill_core::workflow::RunId;

use super::effects::delivery_args;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, text};
use crate::error::unexpected_reply;
use crate::jobs::script_batches;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn deliver_events(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
        let mut shards = vec![Vec::new(); usize::from(self.keys.shards())];
        for (position, delivery) in deliveries.iter().enumerate() {
            shards[usize::from(self.keys.shard_of_run(&delivery.run))].push(position);
        }
        let there = (0..).zip(shards).filter(|(_, members)| !members.is_empty());
        let parts =
            try_join_all(there.map(|(shard, members)| self.deliver_in(shard, deliveries, members))).await?;
        let mut replies: Vec<(usize, Value)> = parts.into_iter().flatten().collect();
        replies.sort_by_key(|(position, _)| *position);
        replies
            .into_iter()
            .map(|(position, reply)| self.parse_delivered(reply, &deliveries[position]))
            .collect()
    }

    /// Delivers events to runs of one shard, in order.
    async fn deliver_in(
        &self,
        shard: u16,
        deliveries: &[Delivery],
        members: Vec<usize>,
    ) -> Result<Vec<(usize, Value)>, Error> {
        let (mut replies, mut confirmed) = (Vec::with_capacity(members.len()), Ok(()));
        for batch in script_batches(members, |member| deliveries[member].entry.bytes.len()) {
            let items: Vec<NamedArgs> =
                batch.iter().map(|&member| delivery_args(&deliveries[member])).collect();
            let args = NamedArgs::new().with("deliveries", items);
            let call = self.run_script_call(&self.scripts.deliver, shard, args);
            let written = self.connections.write(shard, call).await?;
            confirmed = confirmed.and(written.confirmed("the events were delivered"));
            let part = array(written.reply).filter(|part| part.len() == batch.len());
            replies.extend(batch.into_iter().zip(part.ok_or_else(|| unexpected_reply("deliver"))?));
        }
        confirmed.map(|()| replies)
    }

    fn parse_delivered(&self, reply: Value, delivery: &Delivery) -> Result<Delivered, Error> {
        match text(reply).as_deref() {
            Some("yes") => Ok(Delivered::Yes),
            Some("again") => Ok(Delivered::Duplicate),
            Some("missing") => Ok(Delivered::NotFound),
            Some("damaged") => Err(self.damaged_run(&delivery.run)),
            Some(status) => status
                .parse()
                .map(Delivered::Closed)
                .map_err(|_| Error::Corrupt(format!("the state of run {}", delivery.run))),
            None => Err(unexpected_reply("deliver")),
        }
    }

    /// The error for a run whose keys another program has damaged.
    pub(super) fn damaged_run(&self, run: &RunId) -> Error {
        let shard = self.keys.shard_of_run(run);
        let keys = [self.keys.instance(shard, run), self.keys.events(shard, run), self.keys.seen(shard, run)];
        let keys = keys.map(|key| format!("`{key}`")).join(", ");
        Error::Corrupt(format!("the state or the journal of run {run}, one of {keys}"))
    }
}
