//! What is to be told: however often something is announced, it is told once, and counts are summed.

use std::collections::{HashMap, HashSet};

use super::Wake;
use crate::name::Queue;

/// How many different things are told one by one. Beyond that, "look at everything" costs less.
const MAX_DISTINCT_WAKES: usize = 1_024;

/// Wake-ups that are told together.
#[derive(Debug, Default, Clone)]
pub struct WakeSet {
    queues: HashMap<Queue, usize>,
    others: HashSet<Wake>,
}

impl WakeSet {
    /// Adds what is to be told.
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

    /// How many different things there are to tell.
    pub fn len(&self) -> usize {
        self.queues.len() + self.others.len()
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes everything there is to tell.
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
        let (mut news, job) = (WakeSet::default(), JobId::new("a").unwrap());
        for jobs in [1, 2, usize::MAX] {
            news.add(Wake::Queue { queue: queue("mail"), jobs });
            news.add(Wake::Finished(job.clone()));
        }
        let told = news.take();
        assert_eq!(told, [Wake::all_waiters(queue("mail")), Wake::Finished(job)]);
        assert!(news.is_empty());
    }

    #[test]
    fn they_stay_few_however_much_is_announced() {
        let mut news = WakeSet::default();
        for number in 0..3 * MAX_DISTINCT_WAKES {
            news.add(Wake::Queue { queue: queue(&format!("q{number}")), jobs: 1 });
        }
        assert!(news.len() <= MAX_DISTINCT_WAKES);
        assert!(news.take().contains(&Wake::Everything));
    }
}
