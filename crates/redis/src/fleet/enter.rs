//! Members enter, live, are ordered to drain, and leave.

use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::fleet::{WorkerDefaults, WorkerKey};
use tidemill_core::store::fleet::{BeatParams, WorkerEntry, WorkerOrders, WorkerStatus};

use crate::error::odd_answer;
use crate::jobs::portions;
use crate::link::Call;
use crate::store::RedisStore;
use crate::value::{int, ints};

impl RedisStore {
    pub(super) async fn enter_members(&self, members: &[WorkerEntry]) -> Result<(), Error> {
        for portion in parts_of(members)? {
            let mut call = self.call_on_fleet(&self.registry.scripts.join, WorkerDefaults::default());
            portion.iter().for_each(|&position| push_member(&mut call, &members[position]));
            self.ask_fleet(call).await?;
        }
        Ok(())
    }

    pub(super) async fn keep_members(&self, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error> {
        let mut orders = Vec::with_capacity(beat.members.len());
        for portion in parts_of(beat.members)? {
            let mut call = self
                .call_on_fleet(&self.registry.scripts.beat, WorkerDefaults::default())
                .arg(millis(beat.grace));
            portion.iter().for_each(|&position| push_member(&mut call, &beat.members[position]));
            let numbers = ints(self.ask_fleet(call).await?, "beat")?;
            if numbers.len() != 3 * portion.len() {
                return Err(odd_answer("beat"));
            }
            orders.extend(numbers.chunks_exact(3).map(read_orders));
        }
        Ok(orders)
    }

    pub(super) async fn remove_members(&self, members: &[WorkerKey]) -> Result<(), Error> {
        for portion in portions((0..members.len()).collect(), |_| 0) {
            let mut call = self.call_on_fleet(&self.registry.scripts.part, WorkerDefaults::default());
            portion.iter().for_each(|&position| call.push(members[position].to_string()));
            self.ask_fleet(call).await?;
        }
        Ok(())
    }

    pub(super) async fn drain_member(&self, member: &WorkerKey) -> Result<bool, Error> {
        let call = self
            .call_on_fleet(&self.registry.scripts.drain, WorkerDefaults::default())
            .arg(member.to_string());
        Ok(int(&self.ask_fleet(call).await?) == Some(1))
    }
}

/// What one script can be given at a time.
fn parts_of(members: &[WorkerEntry]) -> Result<Vec<Vec<usize>>, Error> {
    members.iter().try_for_each(WorkerEntry::check)?;
    Ok(portions((0..members.len()).collect(), |position| weight(&members[position])))
}

/// About how many bytes a member comes to, in what a script does for it: a hundred are as much as one script should do.
fn weight(member: &WorkerEntry) -> usize {
    const EFFORT: usize = 40_000;
    EFFORT + member.endpoint.len() + member.detail.len()
}

/// As `lua/member.lua` reads it.
fn push_member(call: &mut Call<'_>, member: &WorkerEntry) {
    call.push(member.id.to_string());
    call.push(member.offer.as_str());
    call.push(&member.endpoint);
    call.push(match member.status {
        WorkerStatus::Available => "available",
        WorkerStatus::Draining => "draining",
    });
    call.push(member.room.concurrent);
    call.push(member.room.lifetime);
    call.push(millis(member.fresh));
    call.push(&member.detail[..]);
}

fn read_orders(numbers: &[i64]) -> WorkerOrders {
    WorkerOrders {
        drain: numbers[0] == 1,
        active: u32::try_from(numbers[1]).unwrap_or(0),
        lifetime: u64::try_from(numbers[2]).unwrap_or(0),
    }
}
