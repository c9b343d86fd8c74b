//! The ids of queues, cached once they are known.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidemill_core::{Error, Queue};

use super::guarantee_code;
use crate::Inner;
use crate::sql::{FIND_QUEUES, REGISTER_QUEUE};

/// The ids of queues that this process knows. An id never changes, so no entry expires.
#[derive(Debug, Default)]
pub(crate) struct QueueIds(Mutex<HashMap<Queue, i32>>);

impl QueueIds {
    fn lock(&self) -> MutexGuard<'_, HashMap<Queue, i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The id of a queue, if it exists. It is not created.
    pub(crate) async fn find_queue_id(&self, queue: &Queue) -> Result<Option<i32>, Error> {
        if let Some(id) = self.queue_ids.lock().get(queue) {
            return Ok(Some(*id));
        }
        Ok(self.find_queue_ids(std::slice::from_ref(queue)).await?.first().copied())
    }

    /// The ids of those queues that exist. All unknown ones are read in one statement.
    pub(crate) async fn find_queue_ids(&self, queues: &[Queue]) -> Result<Vec<i32>, Error> {
        let unknown: Vec<&Queue> = {
            let known = self.queue_ids.lock();
            queues.iter().filter(|queue| !known.contains_key(queue)).collect()
        };
        if !unknown.is_empty() {
            let names: Vec<&str> = unknown.iter().map(|queue| queue.name.as_str()).collect();
            let guarantees: Vec<i16> = unknown.iter().map(|queue| guarantee_code(queue.guarantee)).collect();
            let rows = self.pool.query(&FIND_QUEUES, &[&names, &guarantees]).await?;
            for row in rows {
                let is_it = |queue: &&&Queue| {
                    queue.name.as_str() == row.get::<_, &str>("name")
                        && guarantee_code(queue.guarantee) == row.get::<_, i16>("delivery")
                };
                let found = unknown.iter().find(is_it).map(|queue| ((*queue).clone(), row.get("number")));
                self.queue_ids.lock().extend(found);
            }
        }
        let known = self.queue_ids.lock();
        Ok(queues.iter().filter_map(|queue| known.get(queue).copied()).collect())
    }

    /// The id of a queue. The queue is created if it does not exist.
    pub(crate) async fn queue_id(&self, queue: &Queue) -> Result<i32, Error> {
        if let Some(id) = self.find_queue_id(queue).await? {
            return Ok(id);
        }
        self.pool.execute(&REGISTER_QUEUE, &[&queue.name.as_str(), &guarantee_code(queue.guarantee)]).await?;
        let created = self.find_queue_id(queue).await?;
        created.ok_or_else(|| Error::Corrupt(format!("queue {queue} has been deleted from the registry")))
    }
}
