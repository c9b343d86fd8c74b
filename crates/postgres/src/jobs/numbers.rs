//! The numbers of queues, remembered once they are known.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidemill_core::{Error, Queue};

use super::code;
use crate::Inner;
use crate::sql::{FIND_QUEUE, MAKE_QUEUE};

/// What this process knows of queues and their numbers. A number is for good, so nothing is ever forgotten.
#[derive(Debug, Default)]
pub(crate) struct Numbers(Mutex<HashMap<Queue, i32>>);

impl Numbers {
    fn lock(&self) -> MutexGuard<'_, HashMap<Queue, i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The number of a queue, if anybody has ever used it. Looking makes no queue.
    pub(crate) async fn find_number(&self, queue: &Queue) -> Result<Option<i32>, Error> {
        if let Some(number) = self.numbers.lock().get(queue) {
            return Ok(Some(*number));
        }
        let rows = self.pool.query(&FIND_QUEUE, &[&queue.name.as_str(), &code(queue.delivery)]).await?;
        let number = rows.first().map(|row| row.get("number"));
        self.numbers.lock().extend(number.map(|number| (queue.clone(), number)));
        Ok(number)
    }

    /// The number of a queue, which is given one if it has none.
    pub(crate) async fn number(&self, queue: &Queue) -> Result<i32, Error> {
        if let Some(number) = self.find_number(queue).await? {
            return Ok(number);
        }
        self.pool.execute(&MAKE_QUEUE, &[&queue.name.as_str(), &code(queue.delivery)]).await?;
        let made = self.find_number(queue).await?;
        made.ok_or_else(|| Error::Corrupt(format!("queue {queue} has been deleted from the registry")))
    }
}
