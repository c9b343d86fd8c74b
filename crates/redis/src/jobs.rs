//! The job verbs, a file for each that decides something.

mod add;
mod cancel;
mod claim;
mod enqueue;
mod group;
mod lease;
mod letters;
mod list;
pub(crate) mod maintain;
mod orphans;
mod pause;
mod settle;
mod stream;

use std::time::Duration;

use tidemill_core::Lease;

pub(crate) use add::Adder;
pub(crate) use enqueue::due;
pub(crate) use group::Clerk;
pub(crate) use orphans::Orphans;
pub(crate) use settle::{Mode, UNKNOWN_LEASE_MS};

/// The most entries or ids one script is given: `unpack` fails beyond some thousands.
pub(crate) const CHUNK: usize = 1_000;

/// Groups the positions of `leases` by what one script can settle together: a queue's share of one shard.
fn by_place<'a>(leases: impl Iterator<Item = &'a Lease>) -> Vec<(&'a Lease, Vec<usize>)> {
    let mut groups: Vec<(&Lease, Vec<usize>)> = Vec::new();
    for (position, lease) in leases.enumerate() {
        let together = |(first, members): &(&Lease, Vec<usize>)| {
            first.shard == lease.shard && first.queue == lease.queue && members.len() < CHUNK
        };
        // The last group is nearly always the right one.
        match groups.iter_mut().rev().find(|group| together(group)) {
            Some((_, members)) => members.push(position),
            None => groups.push((lease, vec![position])),
        }
    }
    groups
}

/// A duration in milliseconds for a script: at least 1, and at most what `millis` gives, so that no command that a script
/// sends with it (SET PX, PEXPIRE, ZADD) can fail behind the script's first write.
pub(crate) fn ms(duration: Duration) -> i64 {
    tidemill_core::clock::millis(duration).max(1)
}
