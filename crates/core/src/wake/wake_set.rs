//! A set of wake-ups to send together: repetitions are sent once, and job counts are summed.

use std::collections::{HashMap, HashSet};

use super::Wake;
use crate::name::Queue;

/// How many different wake-ups are sent one by one. Beyond that, [`Wake::Everything`] costs less.
const MAX_DISTINCT_WAKES: usize = 1_024;

/// Wake-ups that are sent together.
#[derive(Debug, Default, Clone)]
pub struct WakeSet {
    queues: HashMap<Queue, usize>,
    others: HashSet<Wake>,
}

impl WakeSet {
    /// Adds a wake-up.
    pub fn add(&mut self, wake: Wake) {
        if self.len() >= MAX_DISTINCT_WAKES {
            *self = Self::default();
            self.others.insert(Wake::Everything);
        }
        match wake {
            Wake::Queue { queue, jobs } => {
                let sum = self.queues.entry(queue).or_default();
                *sum = sum.saturating_add(jobs);
            }
            other => {
                self.others.insert(other);
            }
        }
    }

    /// The number of different wake-ups.
    pub fn len(&self) -> usize {
        self.queues.len() + self.others.len()
    }

    /// Whether there is no wake-up to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes all wake-ups, leaving the set empty.
    pub fn take(&mut self) -> Vec<Wake> {
        let queues = self.queues.drain().map(|(queue, jobs)| Wake::Queue { queue, jobs });
        queues.chain(self.others.drain()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{JobId, QueueName};

    fn queue(name: &str) -> Queue {
        Queue::at_least_once(QueueName::new(name).unwrap())
    }

    #[test]
    fn counts_are_summed_and_repetitions_told_once() {
        let (mut wakes, job) = (WakeSet::default(), JobId::new("a").unwrap());
        for jobs in [1, 2, usize::MAX] {
            wakes.add(Wake::Queue { queue: queue("mail"), jobs });
            wakes.add(Wake::Finished(job.clone()));
        }
        let taken = wakes.take();
        assert_eq!(taken, [Wake::all_waiters(queue("mail")), Wake::Finished(job)]);
        assert!(wakes.is_empty());
    }

    #[test]
    fn they_stay_few_however_much_is_announced() {
        let mut wakes = WakeSet::default();
        for number in 0..3 * MAX_DISTINCT_WAKES {
            wakes.add(Wake::Queue { queue: queue(&format!("q{number}")), jobs: 1 });
        }
        assert!(wakes.len() <= MAX_DISTINCT_WAKES);
        assert!(wakes.take().contains(&Wake::Everything));
    }
}
