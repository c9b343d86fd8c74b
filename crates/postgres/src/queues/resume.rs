//! `resume`.

use tidemill_core::{Error, Queue};

use crate::Inner;

impl Inner {
    pub(super) async fn resume(&self, queue: &Queue) -> Result<(), Error> {
        self.set_paused(queue, false).await
    }
}
