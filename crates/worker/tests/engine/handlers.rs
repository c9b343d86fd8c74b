//! Typed and untyped handlers, state and context.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidemill_core::{Envelope, Outcome};
use tidemill_worker::{EventKind, Fail, JobContext, State};

use crate::world::{Background, Ping, Pong, World, with_timeout};

#[derive(Clone, Default)]
struct Sum(Arc<AtomicU32>);

#[derive(Clone)]
struct Factor(u32);

async fn add(job: Ping, State(sum): State<Sum>) -> Result<u32, Fail> {
    Ok(sum.0.fetch_add(job.n, Ordering::SeqCst))
}

async fn multiply(
    job: Ping,
    State(Factor(factor)): State<Factor>,
    cx: JobContext,
    State(sum): State<Sum>,
) -> Result<u32, std::num::ParseIntError> {
    assert_eq!((cx.kind().as_str(), cx.attempt(), cx.max_attempts()), ("ping", 1, 5));
    assert_eq!((cx.queue().to_string(), cx.deadline()), ("default".to_owned(), None));
    assert!(!cx.is_cancelled());
    sum.0.fetch_add(job.n * factor, Ordering::SeqCst);
    "7".parse()
}

#[tokio::test]
async fn a_typed_handler_gets_its_payload_and_the_shared_state() {
    let (world, sum) = (World::new().await, Sum::default());
    world.pings(5).await;
    let report = world.worker().state(sum.clone()).handle(add).queue("default", 3).drain().await.unwrap();
    assert_eq!(sum.0.load(Ordering::SeqCst), 10);
    assert_eq!((report.total.claimed, report.total.done, report.total.running), (5, 5, 0));
    assert_eq!(report.unfinished, Default::default());
}

#[tokio::test]
async fn a_handler_takes_several_arguments_and_its_output_can_be_awaited() {
    let (world, sum) = (World::new().await, Sum::default());
    let handle = world.client.job(Ping { n: 3 }).enqueue().await.unwrap();
    let worker = world.worker().state(sum.clone()).state(Factor(4)).handle(multiply);
    worker.queue("default", 1).drain().await.unwrap();
    assert_eq!(with_timeout(handle.wait()).await.unwrap(), 7);
    assert_eq!(sum.0.load(Ordering::SeqCst), 12);
}

#[tokio::test]
async fn a_closure_is_a_handler() {
    let world = World::new().await;
    let job = world.ping().await;
    let worker = world.worker().handle(|job: Ping| async move { Ok::<_, Fail>(job.n) });
    worker.queue("default", 1).drain().await.unwrap();
    assert_eq!(world.state(&job).await, Some(tidemill_core::job::JobState::Done));
}

#[tokio::test]
async fn an_untyped_handler_gets_the_envelope_and_a_fallback_takes_other_kinds() {
    let world = World::new().await;
    world.ping().await;
    world.client.job(Pong { n: 1 }).enqueue().await.unwrap();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = |who: &'static str| {
        let seen = seen.clone();
        move |envelope: Envelope, cx: JobContext| {
            assert_eq!(envelope.id(), cx.id());
            seen.lock().unwrap().push((who, envelope.kind().to_string(), envelope.payload().to_vec()));
            async { Outcome::Done(b"null".as_slice().into()) }
        }
    };
    let worker = world.worker().handle_untyped("ping", note("own")).handle_any(note("any"));
    worker.queue("default", 1).drain().await.unwrap();
    let (ping, pong) = (
        ("own", "ping".to_owned(), br#"{"n":0}"#.to_vec()),
        ("any", "pong".to_owned(), br#"{"n":1}"#.to_vec()),
    );
    assert_eq!(*seen.lock().unwrap(), [ping, pong]);
}

#[tokio::test]
async fn several_queues_are_served_at_once() {
    let (world, sum) = (World::new().await, Sum::default());
    world.client.job(Ping { n: 1 }).queue("a").enqueue().await.unwrap();
    world.client.job(Ping { n: 10 }).queue("b").enqueue().await.unwrap();
    let once = tidemill_core::Guarantee::AtMostOnce;
    world.client.job(Ping { n: 100 }).queue("a").guarantee(once).enqueue().await.unwrap();
    let worker = world.worker().state(sum.clone()).handle(add);
    let report = worker.queue("a", 1).queue("b", 2).at_most_once("a", 3).drain().await.unwrap();
    assert_eq!(sum.0.load(Ordering::SeqCst), 111);
    let done: Vec<_> = report.queues.iter().map(|q| (q.queue.to_string(), q.counts.done)).collect();
    assert_eq!(done, [("a".into(), 1), ("b".into(), 1), ("a (at most once)".to_owned(), 1)]);
}

#[tokio::test]
async fn a_worker_that_waits_hears_of_new_jobs() {
    let (world, sum) = (World::new().await, Sum::default());
    let worker = world.worker().state(sum.clone()).handle(add).queue("default", 2);
    let stats = worker.stats();
    let mut running = Background::run(worker);
    for _ in 0..3 {
        let job = world.ping().await;
        let event = running.next().await;
        assert_eq!((event.job, event.outcome, event.kind.as_str()), (job, EventKind::Done, "ping"));
    }
    assert_eq!(stats.total().done, 3);
    assert_eq!(running.stop().await.total.done, 3);
}
