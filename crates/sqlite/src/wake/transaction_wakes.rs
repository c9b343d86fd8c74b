//! The wake-ups of one transaction.

use tidemill_core::Queue;
use tidemill_core::wake::Wake;

/// The wake-ups of a transaction, each once.
#[derive(Debug, Default)]
pub(crate) struct TransactionWakes {
    wakes: Vec<Wake>,
}

impl TransactionWakes {
    pub(crate) fn add(&mut self, wake: Wake) {
        // A batch concerns few queues, and their wake-ups repeat. A job ends once.
        match &wake {
            Wake::Queue { queue, jobs } => match self.count(queue) {
                Some(sum) => *sum = sum.saturating_add(*jobs),
                None => self.wakes.push(wake),
            },
            Wake::DueEarlier(_) | Wake::Capacity(_) | Wake::Worker(_) if self.wakes.contains(&wake) => {}
            _ => self.wakes.push(wake),
        }
    }

    /// The number of jobs of `queue` that are to be announced so far, if any.
    fn count(&mut self, queue: &Queue) -> Option<&mut usize> {
        self.wakes.iter_mut().find_map(|wake| match wake {
            Wake::Queue { queue: other, jobs } if other == queue => Some(jobs),
            _ => None,
        })
    }
}

impl IntoIterator for TransactionWakes {
    type Item = Wake;
    type IntoIter = std::vec::IntoIter<Wake>;

    fn into_iter(self) -> Self::IntoIter {
        self.wakes.into_iter()
    }
}
