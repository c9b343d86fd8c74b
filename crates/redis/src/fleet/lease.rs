//! Leasing a worker to a session, or queueing the session.

use redis::Value;
use tidemill_core::clock::millis;
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased};
use tidemill_core::{Error, Timestamp};

use crate::connection::reply::{array, int, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn lease_worker(&self, lease: &LeaseParams) -> Result<Leased, Error> {
        lease.check()?;
        let waiting = lease.wait.filter(|waiting| waiting.max_waiting > 0);
        let mut call = self
            .fleet_script_call(&self.fleet_state.scripts.lease, lease.defaults)
            .arg(lease.session.as_str())
            .arg(lease.kind.as_str())
            .arg(lease.holder.as_str())
            .arg(millis(lease.ttl))
            .arg(millis(lease.keep))
            .arg(&lease.detail[..])
            .arg(waiting.map_or(0, |waiting| waiting.max_waiting))
            .arg(waiting.map_or(0, |waiting| millis(waiting.ttl).max(1)))
            .arg(lease.offers.len());
        lease.offers.iter().for_each(|offer| call.push(offer.as_str()));
        lease.rejected.iter().for_each(|worker| call.push(worker.to_string()));
        read(self.call_fleet(call).await?).ok_or_else(|| unexpected_reply("lease"))
    }
}

fn read(reply: Value) -> Option<Leased> {
    let mut parts = array(reply)?.into_iter();
    match text(parts.next()?)?.as_str() {
        "given" => Some(Leased::Granted(Grant {
            worker: text(parts.next()?)?.parse().ok()?,
            endpoint: text(parts.next()?)?,
            offer: text(parts.next()?)?.parse().ok()?,
            until: Timestamp(int(&parts.next()?)?),
        })),
        "waiting" => Some(Leased::Waiting { ahead: count(parts.next()?)?, workers: count(parts.next()?)? }),
        "refused" => Some(Leased::Refused { waiting: count(parts.next()?)?, workers: count(parts.next()?)? }),
        _ => None,
    }
}

fn count(value: Value) -> Option<u32> {
    u32::try_from(int(&value)?).ok()
}
