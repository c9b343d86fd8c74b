//! Which queues may have leases that have run out: of a few hundred queues at a time, so that a look costs about the same
//! however many there are.
//!
//! The queues that the caller serves are looked at each time, if they are not very many. The others take turns: nobody here
//! runs their jobs, so they can wait for a few looks.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tidemill_core::store::ListExpiredParams;
use tidemill_core::{Error, Guarantee, Queue, QueueName, Timestamp};

use super::ms;
use crate::connection::Call;
use crate::connection::keys::member;
use crate::connection::reply::{array, int, text};
use crate::error::odd_answer;
use crate::store::RedisStore;

/// How many queues of each sort one script looks at. Each takes 6 to 25 µs.
const QUEUES: usize = 256;

/// Where the next look at each shard begins.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Mutex<HashMap<u16, Round>>);

#[derive(Debug, Clone)]
struct Round {
    /// Among all queues: where SSCAN has come to.
    cursor: String,
    /// Among those that the caller serves.
    first: usize,
}

impl Default for Round {
    fn default() -> Self {
        Self { cursor: "0".to_owned(), first: 0 }
    }
}

impl Rounds {
    fn get(&self, shard: u16) -> Round {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&shard).cloned().unwrap_or_default()
    }

    fn put(&self, shard: u16, round: Round) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(shard, round);
    }
}

impl RedisStore {
    /// The time of a shard, and those of its queues in which there may be leases that have run out.
    pub(super) async fn overdue_in(
        &self,
        shard: u16,
        expired: &ListExpiredParams<'_>,
    ) -> Result<(Timestamp, Vec<Queue>), Error> {
        let options = self.link.options();
        let keys = [self.keys.jobs(shard), self.keys.queues(shard)];
        let Round { cursor, first } = self.rounds.get(shard);
        let mut call =
            Call::new(&self.scripts.overdue, &keys).arg(cursor).arg(QUEUES).arg(&options.default_group);
        for (queue, group) in &options.groups {
            call.push(queue.as_str());
            call.push(group);
        }
        call.push("");
        call.push(ms(expired.lease));
        let (served, first) = some(expired.queues, first);
        served.for_each(|queue| call.push(member(queue)));
        let odd = || odd_answer("overdue");
        let mut answer = array(self.link.call(shard, call).await?).ok_or_else(odd)?.into_iter();
        let time = answer.next().as_ref().and_then(int).ok_or_else(odd)?;
        let cursor = answer.next().and_then(text).ok_or_else(odd)?;
        self.rounds.put(shard, Round { cursor, first });
        let queues = answer.filter_map(text).filter_map(|member| read_member(&member));
        Ok((Timestamp(time), queues.collect()))
    }
}

/// As many queues as one look has, from `first` on and around, and where the next look begins.
fn some(queues: &[Queue], first: usize) -> (impl Iterator<Item = &Queue>, usize) {
    let count = queues.len().min(QUEUES);
    let first = if queues.is_empty() { 0 } else { first % queues.len() };
    (queues.iter().cycle().skip(first).take(count), first + count)
}

/// The queue that the set of queues calls so.
pub(super) fn read_member(member: &str) -> Option<Queue> {
    let (kind, name) = member.split_once(' ')?;
    let delivery = match kind {
        "s" => Guarantee::AtLeastOnce,
        "l" => Guarantee::AtMostOnce,
        _ => return None,
    };
    Some(Queue { name: QueueName::new(name).ok()?, guarantee: delivery })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_many_served_queues_has_its_turn() {
        let queue = |number: usize| Queue::at_least_once(QueueName::new(&format!("q{number}")).unwrap());
        let few: Vec<Queue> = (0..3).map(queue).collect();
        assert_eq!(some(&few, 0).0.count(), 3);
        assert_eq!(some(&[], 7).0.count(), 0);
        let many: Vec<Queue> = (0..600).map(queue).collect();
        let (mut seen, mut first) = (std::collections::HashSet::new(), 0);
        for _ in 0..3 {
            let (part, next) = some(&many, first);
            let part: Vec<_> = part.collect();
            assert_eq!(part.len(), QUEUES);
            seen.extend(part);
            first = next;
        }
        assert_eq!(seen.len(), many.len());
    }
}
