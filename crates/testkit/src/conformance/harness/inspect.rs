//! Read calls.

use tidemill_core::dead_letter::DeadLetter;
use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::store::{JobInfo, ListJobsParams, QueueInfo};

use super::QueueHarness;

impl QueueHarness {
    /// The job as stored.
    pub async fn get(&self, job: &JobId) -> Option<JobInfo> {
        self.store.get_job(job).await.unwrap()
    }

    /// The job's state; `None` if it does not exist.
    pub async fn state(&self, job: &JobId) -> Option<JobState> {
        self.get(job).await.map(|info| info.state)
    }

    /// The dead letter of a dead job.
    pub async fn letter(&self, job: &JobId) -> DeadLetter {
        let info = self.get(job).await.expect("a dead job is found");
        assert_eq!(info.state, JobState::Dead);
        DeadLetter::read(info.data).expect("a letter")
    }

    /// All jobs in a state, page by page.
    pub async fn list(&self, state: JobState, limit: usize) -> Vec<JobInfo> {
        let (mut jobs, mut cursor) = (Vec::new(), None);
        loop {
            let page = self
                .store
                .list_jobs(ListJobsParams { queue: &self.queue, state, cursor, limit })
                .await
                .unwrap();
            jobs.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                return jobs;
            }
        }
    }

    /// The queue's counts; zeros if the store does not know it.
    pub async fn counts(&self) -> QueueInfo {
        let queues = self.store.list_queues().await.unwrap();
        let empty = QueueInfo {
            queue: self.queue.clone(),
            ready: 0,
            scheduled: 0,
            blocked: 0,
            running: 0,
            dead: 0,
            paused: false,
            problems: Vec::new(),
        };
        queues.into_iter().find(|info| info.queue == self.queue).unwrap_or(empty)
    }

    /// Asserts how many jobs are ready, scheduled, running and dead.
    pub async fn assert_counts(&self, expected: [u64; 4]) {
        let info = self.counts().await;
        let found = [info.ready, info.scheduled, info.running, info.dead];
        assert_eq!(found, expected, "ready, scheduled, running, dead of {}", self.queue);
    }
}
