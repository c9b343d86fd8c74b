//! Leasing a worker to a session, or queueing the session.

use redis::Value;
use tidemill_core::clock::millis;
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased};
use tidemill_core::{Error, Timestamp};

use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, int, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn lease_worker(&self, lease: &LeaseParams) -> Result<Leased, Error> {
        lease.check()?;
        let waiting = lease.wait.filter(|waiting| waiting.max_waiting > 0);
        let args = NamedArgs::new()
            .with("session", lease.session.as_str())
            .with("kind", lease.kind.as_str())
            .with("holder", lease.holder.as_str())
            .with("ttl", millis(lease.ttl))
            .with("keep", millis(lease.keep))
            .with("detail", &lease.detail)
            .with("max_waiting", waiting.map_or(0, |waiting| waiting.max_waiting))
            .with("wait_ttl", waiting.map_or(0, |waiting| millis(waiting.ttl).max(1)))
            .with("offers", lease.offers.iter().map(|offer| offer.as_str()).collect::<Vec<_>>())
            .with("rejected", lease.rejected.iter().map(ToString::to_string).collect::<Vec<_>>());
        let reply = self.call_fleet_with(lease.defaults, &self.fleet_state.scripts.lease, args).await?;
        read(reply).ok_or_else(|| unexpected_reply("lease"))
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
