//! Actions on one job at its location: a script that does nothing if the job has moved.

use redis::Value;
use tidemill_core::{Error, JobId};

use crate::chains::outbox::OutboxEntry;
use crate::connection::ScriptCall;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, text};
use crate::connection::script::Script;
use crate::error::unexpected_reply;
use crate::jobs::locate::JobLocation;
use crate::store::RedisStore;

/// How often to locate a job again that moved before the action.
pub(crate) const MAX_ATTEMPTS: usize = 8;

/// The reply of such a script: a status and, for `awaited`, the waiter.
pub(crate) struct ActionReply {
    pub(crate) status: String,
    pub(crate) waiter: Option<String>,
}

impl RedisStore {
    /// The keys of a job's location.
    pub(crate) fn keys_at(&self, job: &JobId, location: &JobLocation) -> Vec<String> {
        let (shard, queue) = (location.shard, &location.queue);
        let mut keys = self.keys.shard_keys(shard);
        keys.extend([
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.blocked(shard, queue),
            self.keys.dlq(shard, queue),
            self.keys.cancelled(shard, queue),
            self.keys.lock(shard, queue, job),
            self.keys.running(shard, queue),
            self.keys.dropped(shard, queue),
            self.keys.record(shard, job),
            self.keys.waits(shard, location.wait_id().unwrap_or_default()),
        ]);
        keys
    }

    /// The arguments of a script that acts at a location. More may follow.
    pub(crate) fn location_args(&self, job: &JobId, location: &JobLocation) -> NamedArgs {
        NamedArgs::new()
            .with("channel", self.keys.channel())
            .with("job", job.as_str())
            .with("group", self.group(&location.queue))
            .with("indexed", Some(&location.index_value[..]).filter(|value| !value.is_empty()))
            .with("letter", location.letter.map(String::from))
            .with("reference", &location.reference[..])
    }

    /// Calls such a script, processes its outbox, and removes the registrations of a blocked job
    /// that is gone.
    pub(crate) async fn run_action(
        &self,
        (script, keys): (&Script, &[String]),
        args: &NamedArgs,
        location: &JobLocation,
    ) -> Result<ActionReply, Error> {
        let call = ScriptCall::named(script, keys, args);
        let unexpected = || unexpected_reply("a script about one job");
        let mut parts =
            array(self.connections.call(location.shard, call).await?).ok_or_else(unexpected)?.into_iter();
        let status = parts.next().and_then(text).ok_or_else(unexpected)?;
        if status == "awaited" {
            return Ok(ActionReply { status, waiter: parts.next().and_then(text) });
        }
        let rest: Vec<Value> = parts.collect();
        let end = rest.iter().position(|part| text(part.clone()).is_some_and(|text| text.is_empty()));
        let (outbox, registered) = rest.split_at(end.unwrap_or(rest.len()));
        self.process_outbox(location.shard, OutboxEntry::parse_all(outbox.iter().cloned())).await;
        let registered = registered.iter().filter_map(|part| parse_position(&text(part.clone())?));
        if let Some((job, wait_id)) = location.wait() {
            self.unregister(wait_id, (&location.queue, &job), registered.collect::<Vec<_>>()).await;
        }
        Ok(ActionReply { status, waiter: None })
    }
}

/// `POSITION CHAIN`.
fn parse_position(text: &str) -> Option<(u32, JobId)> {
    let (position, chain) = text.split_once(' ')?;
    Some((position.parse().ok()?, JobId::new(chain).ok()?))
}

/// The error for a job that kept moving.
pub(crate) fn keeps_moving_error(job: &JobId) -> Error {
    Error::Unavailable { message: format!("job {job} keeps moving"), source: None }
}
