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
        Ok(self.find_numbers(std::slice::from_ref(queue)).await?.first().copied())
    }

    /// The numbers of those queues that anybody has ever used. All that are not known are asked for at once.
    pub(crate) async fn find_numbers(&self, queues: &[Queue]) -> Result<Vec<i32>, Error> {
        let unknown: Vec<&Queue> = {
            let known = self.numbers.lock();
            queues.iter().filter(|queue| !known.contains_key(queue)).collect()
        };
        if !unknown.is_empty() {
            let names: Vec<&str> = unknown.iter().map(|queue| queue.name.as_str()).collect();
            let deliveries: Vec<i16> = unknown.iter().map(|queue| code(queue.guarantee)).collect();
            let rows = self.pool.query(&FIND_QUEUE, &[&names, &deliveries]).await?;
            for row in rows {
                let is_it = |queue: &&&Queue| {
                    queue.name.as_str() == row.get::<_, &str>("name")
                        && code(queue.guarantee) == row.get::<_, i16>("delivery")
                };
                let found = unknown.iter().find(is_it).map(|queue| ((*queue).clone(), row.get("number")));
                self.numbers.lock().extend(found);
            }
        }
        let known = self.numbers.lock();
        Ok(queues.iter().filter_map(|queue| known.get(queue).copied()).collect())
    }

    /// The number of a queue, which is given one if it has none.
    pub(crate) async fn number(&self, queue: &Queue) -> Result<i32, Error> {
        if let Some(number) = self.find_number(queue).await? {
            return Ok(number);
        }
        self.pool.execute(&MAKE_QUEUE, &[&queue.name.as_str(), &code(queue.guarantee)]).await?;
        let made = self.find_number(queue).await?;
        made.ok_or_else(|| Error::Corrupt(format!("queue {queue} has been deleted from the registry")))
    }
}
