//! Chains: jobs that keep their result, continue, and wait for one another.

use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use tidemill_core::chain::{Continuation, Dedup, JobLinks};
use tidemill_core::name::{JobId, Kind, QueueName};
use tidemill_core::settle::{Outcome, Settlement};
use tidemill_core::store::{Claimed, CompleteParams, Completed, Deleted, Due, Enqueued, NewJob};

use super::{JobSpec, QueueHarness};

/// How long the result of a chain is kept in a case.
const KEPT: Duration = Duration::from_secs(60);

/// The first job of a chain.
pub fn chain() -> NewJob {
    JobSpec { keep: Some(KEPT), ..JobSpec::default() }.job()
}

/// The first job of a chain that waits for others.
pub fn chain_after(blockers: &[JobId]) -> NewJob {
    NewJob { links: JobLinks { after: blockers.to_vec(), dedup: None }, ..chain() }
}

/// The first job of a chain with a deduplication key.
pub fn chain_once(dedup: Dedup) -> NewJob {
    NewJob { links: JobLinks { after: Vec::new(), dedup: Some(dedup) }, generated_id: true, ..chain() }
}

/// A continuation on the queue `jobs`.
pub fn next(kind: &str) -> Continuation {
    let payload = RawValue::from_string(format!(r#"{{"by":"{kind}"}}"#)).expect("a payload of JSON");
    Continuation::untyped(
        Kind::new(kind).expect("a kind"),
        QueueName::new("jobs").expect("a queue"),
        &payload,
    )
}

/// The outcome that continues a chain.
pub fn continue_with(next: Continuation) -> Outcome {
    Outcome::Continue(Box::new(next))
}

/// The outcome of a success with this output.
pub fn output(json: &str) -> Outcome {
    Outcome::Done(Bytes::copy_from_slice(json.as_bytes()))
}

impl QueueHarness {
    /// Starts a chain and ends it with the output `json`.
    pub async fn closed_chain(&self, json: &str) -> JobId {
        let id = self.enqueue(chain()).await;
        self.settle(&self.claim_one().await, output(json)).await;
        id
    }

    /// Claims the job of this chain; hands back other jobs that were claimed meanwhile.
    pub async fn claim_chain(&self, id: &JobId) -> Claimed {
        super::until("a chain's job to be claimed", || async {
            let mut given = self.try_claim(10).await;
            let found = given.iter().position(|claimed| claimed.lease.job.chain() == *id);
            let found = found.map(|index| given.remove(index));
            for other in given {
                self.settle(&other, Outcome::HandedBack).await;
            }
            found
        })
        .await
    }

    /// Completes a job from outside.
    pub async fn complete(&self, job: &JobId, outcome: Outcome) -> Completed {
        let Some(info) = self.get(job).await else { return Completed::NotFound };
        let body = tidemill_core::Envelope::read(info.data.clone());
        let Ok(envelope) = body else { return Completed::Ended(info.state) };
        let lease = tidemill_core::Lease {
            queue: self.queue.clone(),
            job: info.job.clone(),
            shard: 0,
            token: tidemill_core::Token(0),
        };
        let Settlement { change, .. } =
            self.settlement(&Claimed { lease, body: Ok(envelope), started: true }, outcome);
        self.store.complete(CompleteParams { job, change: &change }).await.unwrap()
    }

    /// Deletes a chain.
    pub async fn delete(&self, chain: &JobId) -> Deleted {
        self.store.delete(chain).await.unwrap()
    }

    /// Starts a chain with a deduplication key; returns the id of the existing one, if there is
    /// one.
    pub async fn start_once(&self, dedup: Dedup) -> (bool, JobId) {
        let job = chain_once(dedup);
        let id = job.id.clone();
        match self.enqueue_again(job).await {
            Enqueued::Created => (true, id),
            Enqueued::Duplicate(other) => (false, other),
            Enqueued::Exists => panic!("the id {id} is new"),
        }
    }

    /// An outcome that continues after this delay.
    pub fn later(&self, next: Continuation, delay: Duration) -> Outcome {
        continue_with(Continuation { due: Due::In(delay), ..next })
    }
}
