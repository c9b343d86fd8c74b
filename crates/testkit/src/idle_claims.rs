//! The cost of many idle claims in one process. For stores whose claims wait in their own process;
//! where claims block in the server, each costs a connection.

// A test whose set-up fails panics.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::future::Future;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt};
use tidemill_core::JobId;
use tidemill_core::store::{ClaimParams, NewJob};

use crate::conformance::harness::{LONG, QueueHarness, job};

/// How many claims wait.
const CLAIM_COUNT: usize = 1_000;

/// How long to wait for what should not happen.
const QUIET_TIME: Duration = Duration::from_millis(300);

/// The minimum interval between two regular polls.
const POLL_PAUSE: Duration = Duration::from_millis(750);

/// A thousand claims of one job each wait, and `add` adds one job. At most two commands are sent
/// because of it, in addition to the `own` commands of `add` itself.
pub async fn one_job_costs_two_commands<F>(harness: &QueueHarness, own: u64, add: impl Fn(NewJob) -> F)
where
    F: Future<Output = ()>,
{
    let store = &harness.store;
    let mut claims = FuturesUnordered::new();
    for _ in 0..CLAIM_COUNT {
        claims.push(async {
            let claim = ClaimParams::now(&harness.queue, &harness.worker, LONG, 1);
            store.claim(ClaimParams { wait: 20 * LONG, ..claim }).await.unwrap().remove(0).lease.job
        });
    }
    // After this, all claims are waiting, everything is set up, and the next regular poll is one
    // pause away.
    for count in 0..3 {
        let job = NewJob { tracked: false, ..job() };
        let id = job.id.clone();
        let (before, begun) = (store.commands(), Instant::now());
        add(job).await;
        assert_eq!(collect_claimed(&mut claims).await, [id]);
        // The last poll was made some time before the job was added.
        let polls = (begun.elapsed() + QUIET_TIME).div_duration_f64(POLL_PAUSE).floor() as u64;
        let sent = store.commands() - before;
        assert!(count == 0 || sent <= own + 2 + polls, "{sent} commands in {:?}", begun.elapsed());
    }
}

/// The claimed jobs until none follows for a while; waits for the first one.
async fn collect_claimed(claims: &mut (impl Stream<Item = JobId> + Unpin)) -> Vec<JobId> {
    let mut claimed = Vec::new();
    loop {
        let quiet = if claimed.is_empty() { LONG } else { QUIET_TIME };
        // Claims that are woken meanwhile make progress, even if they find nothing.
        match tokio::time::timeout(quiet, claims.next()).await {
            Ok(job) => claimed.push(job.expect("many claims wait")),
            Err(_) => return claimed,
        }
    }
}

/// A thousand claims wait without jobs; together they send at most one command per pause.
pub async fn idling_costs_one_command_per_pause(harness: &QueueHarness, time: Duration) {
    let claims = (0..CLAIM_COUNT).map(|_| harness.claim_with(1, 1, 2 * time));
    let mut all = std::pin::pin!(futures_util::future::join_all(claims));
    // The first claim polls, and a store that has to subscribe does so.
    assert!(tokio::time::timeout(time / 4, &mut all).await.is_err());
    let (before, begun) = (harness.store.commands(), Instant::now());
    assert!(tokio::time::timeout(time, &mut all).await.is_err());
    let (sent, polls) = (harness.store.commands() - before, begun.elapsed().div_duration_f64(POLL_PAUSE));
    assert!(sent as f64 <= polls + 1.0, "{sent} commands in {:?}", begun.elapsed());
}
