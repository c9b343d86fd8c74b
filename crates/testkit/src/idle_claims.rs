//! A crowd of idle claims in one process, and what it costs its store. For stores whose claims wait in their
//! own process; where they block in the server, each costs a connection.

// What cannot be arranged fails a test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::future::Future;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt};
use tidemill_core::JobId;
use tidemill_core::store::{ClaimParams, NewJob};

use crate::conformance::scene::{LONG, Scene, job};

/// How many claims wait.
const CLAIMS: usize = 1_000;

/// How long to listen for what should not happen.
const QUIET: Duration = Duration::from_millis(300);

/// The shortest time between two regular looks.
const PAUSE: Duration = Duration::from_millis(750);

/// A thousand claims of one job each wait; one job is added by `add`. At most two commands are sent because of
/// it, beside those that `add` says it sends to the crowd's store itself.
pub async fn one_job_costs_two_commands<F>(scene: &Scene, own: u64, add: impl Fn(NewJob) -> F)
where
    F: Future<Output = ()>,
{
    let store = &scene.store;
    let mut claims = FuturesUnordered::new();
    for _ in 0..CLAIMS {
        claims.push(async {
            let claim = ClaimParams::now(&scene.queue, &scene.worker, LONG, 1);
            store.claim(ClaimParams { wait: 20 * LONG, ..claim }).await.unwrap().remove(0).lease.job
        });
    }
    // Everybody is in line, everything is set up, and the next regular look is a pause away after this.
    for count in 0..3 {
        let job = NewJob { tracked: false, ..job() };
        let id = job.id.clone();
        let (before, begun) = (store.commands(), Instant::now());
        add(job).await;
        assert_eq!(given(&mut claims).await, [id]);
        // The last look was made a while before the job came.
        let looks = (begun.elapsed() + QUIET).div_duration_f64(PAUSE).floor() as u64;
        let sent = store.commands() - before;
        assert!(count == 0 || sent <= own + 2 + looks, "{sent} commands in {:?}", begun.elapsed());
    }
}

/// What is given out until nothing happens for a while, which is not before something has been.
async fn given(claims: &mut (impl Stream<Item = JobId> + Unpin)) -> Vec<JobId> {
    let mut given = Vec::new();
    loop {
        let quiet = if given.is_empty() { LONG } else { QUIET };
        // Whoever is woken meanwhile goes on, the one who looks in vain too.
        match tokio::time::timeout(quiet, claims.next()).await {
            Ok(job) => given.push(job.expect("many claims wait")),
            Err(_) => return given,
        }
    }
}

/// A thousand claims wait in vain; together they send no more than one command per pause.
pub async fn idling_costs_one_command_per_pause(scene: &Scene, time: Duration) {
    let claims = (0..CLAIMS).map(|_| scene.claim_with(1, 1, 2 * time));
    let mut all = std::pin::pin!(futures_util::future::join_all(claims));
    // Whoever comes first looks, and a store that has to begin to listen does.
    assert!(tokio::time::timeout(time / 4, &mut all).await.is_err());
    let (before, begun) = (scene.store.commands(), Instant::now());
    assert!(tokio::time::timeout(time, &mut all).await.is_err());
    let (sent, looks) = (scene.store.commands() - before, begun.elapsed().div_duration_f64(PAUSE));
    assert!(sent as f64 <= looks + 1.0, "{sent} commands in {:?}", begun.elapsed());
}
