//! Bulk enqueues that fail in part: the caller learns the result of each job.

use tidemill_core::client::BulkError;
use tidemill_core::{Error, JobId};

use crate::fault_plan::{Fault, Verb};
use crate::world::{Ping, World};

/// Enqueues fifty jobs in batches of ten, of which the first fails.
async fn enqueue(world: &World, fault: Fault) -> BulkError {
    world.plan().next(Verb::Enqueue, fault, 1);
    let pings = world.client.jobs((0..50).map(|n| Ping { n })).batch(10);
    pings.enqueue().await.unwrap_err()
}

/// Whether exactly these jobs of the bulk exist, each with the payload of its position.
async fn are_there(world: &World, jobs: &[(usize, JobId)]) -> bool {
    for (position, job) in jobs {
        let payload = format!("{{\"n\":{position}}}");
        assert_eq!(world.envelope(job).await.payload(), payload.as_bytes());
    }
    world.store.inner.list_queues().await.unwrap()[0].ready == jobs.len() as u64
}

#[tokio::test]
async fn batches_under_way_are_awaited_after_an_error_and_no_other_is_begun() {
    let world = World::new().await;
    let error = enqueue(&world, Fault::Away).await;
    assert_eq!(error.to_string(), "20 of 50 jobs were made");
    let positions: Vec<usize> = error.created.iter().map(|(position, _)| *position).collect();
    assert_eq!(positions, (10..30).collect::<Vec<_>>());
    assert!(are_there(&world, &error.created).await);
    assert_eq!(world.plan().count(Verb::Enqueue), 3);
    // The error alone must not claim that nothing took effect.
    assert!(matches!(Error::from(error), Error::Unanswered { .. }));
}

#[tokio::test]
async fn jobs_that_may_have_been_made_are_told_apart() {
    let world = World::new().await;
    let error = enqueue(&world, Fault::AnswerLost).await;
    assert_eq!(error.to_string(), "20 of 50 jobs were made, and up to 10 more may have been");
    let all = [error.unknown, error.created].concat();
    assert!(are_there(&world, &all).await);
}

#[tokio::test]
async fn a_replica_that_is_away_keeps_no_job_from_being_made() {
    let world = World::new().await;
    let error = enqueue(&world, Fault::Unconfirmed).await;
    assert_eq!(error.to_string(), "50 of 50 jobs were made");
    assert!(are_there(&world, &error.created).await);
    assert!(matches!(Error::from(error), Error::Unconfirmed(_)));
}
