//! Counting the clients that wait for a worker.

use redis::Value;
use tidemill_core::Error;
use tidemill_core::fleet::WorkerDefaults;
use tidemill_core::store::fleet::WaitingInfo;

use crate::connection::reply::{array, int, text};
use crate::error::odd_answer;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn list_lines(&self) -> Result<Vec<WaitingInfo>, Error> {
        let call = self.call_on_fleet(&self.registry.scripts.list_waiting, WorkerDefaults::default());
        let lines = array(self.ask_fleet(call).await?).ok_or_else(|| odd_answer("lines"))?;
        Ok(lines.into_iter().filter_map(|parts| line(array(parts)?)).collect())
    }
}

fn line(parts: Vec<Value>) -> Option<WaitingInfo> {
    let mut parts = parts.into_iter();
    Some(WaitingInfo {
        kind: text(parts.next()?)?.parse().ok()?,
        offer: text(parts.next()?)?.parse().ok()?,
        waiting: u32::try_from(int(&parts.next()?)?).ok()?,
    })
}
