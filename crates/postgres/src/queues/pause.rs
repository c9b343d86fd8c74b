//! `pause`, and the flag that `resume` clears.

use tidemill_core::wake::Wake;
use tidemill_core::{Error, Queue};

use crate::Inner;
use crate::sql::PAUSE;

impl Inner {
    pub(super) async fn pause(&self, queue: &Queue) -> Result<(), Error> {
        self.set_paused(queue, true).await
    }

    pub(super) async fn set_paused(&self, queue: &Queue, paused: bool) -> Result<(), Error> {
        let queue_id = self.queue_id(queue).await?;
        self.pool.execute(&PAUSE, &[&queue_id, &paused]).await?;
        self.bus.publish_and_flush(Wake::all_waiters(queue.clone())).await;
        Ok(())
    }
}
