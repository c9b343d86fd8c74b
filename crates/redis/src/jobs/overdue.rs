//! Queues that may have expired leases: a few hundred at a time, so that a call costs the same
//! however many there are.
//!
//! The caller's own queues are checked each time, unless there are very many. The others take
//! turns: no worker here runs their jobs, so they can wait.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tidemill_core::store::ListExpiredParams;
use tidemill_core::{Error, Guarantee, Queue, QueueName, Timestamp};

use super::ms;
use crate::connection::ScriptCall;
use crate::connection::keys::queue_member;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, int, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

/// How many queues of each group one script checks. Each takes 6 to 25 µs.
const MAX_QUEUES_PER_CALL: usize = 256;

/// The next position in each shard.
#[derive(Debug, Default)]
pub(crate) struct OverdueCursors(Mutex<HashMap<u16, OverdueCursor>>);

#[derive(Debug, Clone)]
struct OverdueCursor {
    /// Among all queues: the cursor of SSCAN.
    cursor: String,
    /// Among the caller's own queues.
    first: usize,
}

impl Default for OverdueCursor {
    fn default() -> Self {
        Self { cursor: "0".to_owned(), first: 0 }
    }
}

impl OverdueCursors {
    fn get(&self, shard: u16) -> OverdueCursor {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&shard).cloned().unwrap_or_default()
    }

    fn put(&self, shard: u16, round: OverdueCursor) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(shard, round);
    }
}

impl RedisStore {
    /// The time of a shard, and its queues that may have expired leases.
    pub(super) async fn overdue_in(
        &self,
        shard: u16,
        expired: &ListExpiredParams<'_>,
    ) -> Result<(Timestamp, Vec<Queue>), Error> {
        let keys = [self.keys.jobs(shard), self.keys.queues(shard)];
        let OverdueCursor { cursor, first } = self.overdue_cursors.get(shard);
        let (served, first) = next_queues(expired.queues, first);
        let args = NamedArgs::new()
            .with("cursor", cursor)
            .with("page_size", MAX_QUEUES_PER_CALL)
            .with("group", &self.connections.options().default_group)
            .with("groups", self.group_names())
            .with("queues", served.map(queue_member).collect::<Vec<_>>())
            .with("lease", ms(expired.lease));
        let call = ScriptCall::named(&self.scripts.overdue, &keys, &args);
        let unexpected = || unexpected_reply("overdue");
        let mut reply = array(self.connections.call(shard, call).await?).ok_or_else(unexpected)?.into_iter();
        let time = reply.next().as_ref().and_then(int).ok_or_else(unexpected)?;
        let cursor = reply.next().and_then(text).ok_or_else(unexpected)?;
        self.overdue_cursors.put(shard, OverdueCursor { cursor, first });
        let queues = reply.filter_map(text).filter_map(|member| parse_queue_member(&member));
        Ok((Timestamp(time), queues.collect()))
    }
}

/// The queues of one call, from `first` on and wrapping around, and the next position.
fn next_queues(queues: &[Queue], first: usize) -> (impl Iterator<Item = &Queue>, usize) {
    let count = queues.len().min(MAX_QUEUES_PER_CALL);
    let first = if queues.is_empty() { 0 } else { first % queues.len() };
    (queues.iter().cycle().skip(first).take(count), first + count)
}

/// Parses a member of the set of queues.
pub(super) fn parse_queue_member(member: &str) -> Option<Queue> {
    let (kind, name) = member.split_once(' ')?;
    let guarantee = match kind {
        "s" => Guarantee::AtLeastOnce,
        "l" => Guarantee::AtMostOnce,
        _ => return None,
    };
    Some(Queue { name: QueueName::new(name).ok()?, guarantee })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_many_served_queues_has_its_turn() {
        let queue = |number: usize| Queue::at_least_once(QueueName::new(&format!("q{number}")).unwrap());
        let few: Vec<Queue> = (0..3).map(queue).collect();
        assert_eq!(next_queues(&few, 0).0.count(), 3);
        assert_eq!(next_queues(&[], 7).0.count(), 0);
        let many: Vec<Queue> = (0..600).map(queue).collect();
        let (mut seen, mut first) = (std::collections::HashSet::new(), 0);
        for _ in 0..3 {
            let (part, next) = next_queues(&many, first);
            let part: Vec<_> = part.collect();
            assert_eq!(part.len(), MAX_QUEUES_PER_CALL);
            seen.extend(part);
            first = next;
        }
        assert_eq!(seen.len(), many.len());
    }
}
