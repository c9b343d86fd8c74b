//! Adding workers to the fleet.

use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::fleet::WorkerDefaults;
use tidemill_core::store::fleet::{WorkerEntry, WorkerStatus};

use crate::connection::Call;
use crate::jobs::portions;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn enter_members(&self, members: &[WorkerEntry]) -> Result<(), Error> {
        for portion in parts_of(members)? {
            let mut call = self.call_on_fleet(&self.registry.scripts.join, WorkerDefaults::default());
            portion.iter().for_each(|&position| push_member(&mut call, &members[position]));
            self.ask_fleet(call).await?;
        }
        Ok(())
    }
}

/// What one script can be given at a time.
pub(super) fn parts_of(members: &[WorkerEntry]) -> Result<Vec<Vec<usize>>, Error> {
    members.iter().try_for_each(WorkerEntry::check)?;
    Ok(portions((0..members.len()).collect(), |position| weight(&members[position])))
}

/// About how many bytes a member comes to, in what a script does for it: a hundred are as much as one script should do.
fn weight(member: &WorkerEntry) -> usize {
    const EFFORT: usize = 40_000;
    EFFORT + member.endpoint.len() + member.detail.len()
}

/// As `lua/member.lua` reads it.
pub(super) fn push_member(call: &mut Call<'_>, member: &WorkerEntry) {
    call.push(member.id.to_string());
    call.push(member.offer.as_str());
    call.push(&member.endpoint);
    call.push(match member.status {
        WorkerStatus::Available => "available",
        WorkerStatus::Draining => "draining",
    });
    call.push(member.capacity.concurrent);
    call.push(member.capacity.lifetime);
    call.push(millis(member.beat_timeout));
    call.push(&member.detail[..]);
}
