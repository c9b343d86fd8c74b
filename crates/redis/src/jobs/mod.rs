//! The job verbs, a file for each that decides something.

mod cancel;
mod claim;
mod complete;
mod dead_letters;
mod delete;
mod drop_dead;
mod enqueue;
mod enqueue_plain;
mod extend;
mod group_commit;
mod job_action;
mod leave;
mod list;
mod list_expired;
mod list_pops;
pub(crate) mod locate;
mod orphans;
mod overdue;
pub(crate) mod promote;
mod prune;
mod receipt;
mod recover;
mod redrive;
mod repair;
mod settle;
mod start;
mod stream;
mod stream_position;
mod untracked;

use std::time::Duration;

use tidemill_core::Lease;

pub(crate) use dead_letters::letter_name;
pub(crate) use enqueue::{after_others, due};
pub(crate) use enqueue_plain::Adder;
pub(crate) use group_commit::Clerk;
pub(crate) use job_action::{TRIES, keeps_moving};
pub(crate) use list::lock_token;
pub(crate) use list_pops::Pops;
pub(crate) use orphans::Orphans;
pub(crate) use overdue::Rounds;
pub(crate) use receipt::{RECEIPT_MS, Receipts};
pub(crate) use recover::Doubts;
pub(crate) use repair::Cursors;
pub(crate) use settle::{Mode, UNKNOWN_LEASE_MS};
pub(crate) use stream::NAMELESS;
pub(crate) use untracked::Noted;

/// The most entries or ids one script is given: `unpack` fails beyond some thousands.
pub(crate) const CHUNK: usize = 1_000;

/// How many bytes one script is given or moves, about: they keep the server from everything else. A script that moves 100 KiB
/// reads, checks and copies them several times and takes 2 to 3 ms for that.
pub(crate) const SCRIPT_BYTES: usize = 256 << 10;

/// What an argument costs beside its bytes, about.
pub(crate) const OVERHEAD: usize = 256;

/// Splits `members` into parts that one script can be given, in order. `weigh` says about how many bytes a member has.
pub(crate) fn portions(members: Vec<usize>, weigh: impl Fn(usize) -> usize) -> Vec<Vec<usize>> {
    let (mut portions, mut load) = (Vec::<Vec<usize>>::new(), 0);
    for member in members {
        let weight = weigh(member) + OVERHEAD;
        load += weight;
        match portions.last_mut() {
            Some(last) if load <= SCRIPT_BYTES && last.len() < CHUNK => last.push(member),
            _ => {
                load = weight;
                portions.push(vec![member]);
            }
        }
    }
    portions
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_given_what_it_can_carry_and_one_thing_however_heavy() {
        let of = |weight: usize, count: usize| portions((0..count).collect(), |_| weight);
        assert_eq!(of(0, SCRIPT_BYTES / OVERHEAD + 1).len(), 2);
        assert_eq!(of(2 * SCRIPT_BYTES, 3), [[0], [1], [2]]);
        assert_eq!(of(0, 3), [[0, 1, 2]]);
        assert!(of(0, 0).is_empty());
    }
}
