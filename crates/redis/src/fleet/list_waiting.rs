//! Counting the clients that wait for a worker.

use redis::Value;
use tidemill_core::Error;
use tidemill_core::store::fleet::WaitingInfo;

use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, int, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn waiting_clients(&self) -> Result<Vec<WaitingInfo>, Error> {
        let reply = self.call_fleet(&self.fleet_state.scripts.list_waiting, NamedArgs::new()).await?;
        let queues = array(reply).ok_or_else(|| unexpected_reply("list_waiting"))?;
        Ok(queues.into_iter().filter_map(|parts| parse_waiting(array(parts)?)).collect())
    }
}

fn parse_waiting(parts: Vec<Value>) -> Option<WaitingInfo> {
    let mut parts = parts.into_iter();
    Some(WaitingInfo {
        kind: text(parts.next()?)?.parse().ok()?,
        offer: text(parts.next()?)?.parse().ok()?,
        waiting: u32::try_from(int(&parts.next()?)?).ok()?,
    })
}
