//! How a bus dispatches wake-ups in its own process, and what it leaves to other processes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tidemill_core::wake::{Bus, Pending, PollInterval, Polled, Wake};
use tidemill_core::{Clock, JobId, Queue, QueueName, Timestamp};

#[derive(Debug)]
struct NoTime;

impl Clock for NoTime {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

fn queue(name: &str) -> Queue {
    Queue::at_least_once(QueueName::new(name).unwrap())
}

fn end(id: &str) -> Wake {
    Wake::Finished(JobId::new(id).unwrap())
}

fn bus() -> Arc<Bus> {
    Arc::new(Bus::with_transport(PollInterval::NEVER, Arc::new(NoTime)))
}

/// What a transport would send now.
fn sent(outgoing: &Pending) -> Vec<Wake> {
    let batch = outgoing.next_batch(std::future::ready(())).now_or_never();
    batch.map_or_else(Vec::new, |batch| {
        outgoing.sent(&batch);
        batch.wakes
    })
}

/// A claim that has seen an empty queue and waits.
async fn wait(bus: &Bus, queue: &Queue) {
    loop {
        let permit = bus.wait_queues().poll_permit(queue, &NoTime).await;
        permit.finish(Ok(Polled::default())).unwrap();
    }
}

#[test]
fn others_are_told_only_of_the_jobs_that_nobody_here_was_called_for() {
    let (bus, mail) = (bus(), queue("mail"));
    let outgoing = bus.outgoing().unwrap();
    let mut claims: Vec<_> = (0..3).map(|_| Box::pin(wait(&bus, &mail))).collect();
    let mut run =
        || (0..4).for_each(|_| claims.iter_mut().for_each(|claim| assert!(claim.now_or_never().is_none())));
    run();
    for (jobs, rest) in [(2, None), (5, Some(2))] {
        bus.publish(Wake::Queue { queue: mail.clone(), jobs });
        assert_eq!(
            sent(outgoing),
            Vec::from_iter(rest.map(|jobs| Wake::Queue { queue: mail.clone(), jobs }))
        );
        run();
    }
    bus.publish(Wake::all_waiters(mail.clone()));
    assert_eq!(sent(outgoing), [Wake::all_waiters(mail.clone())]);
}

#[test]
fn everybody_hears_what_is_told_while_they_listen() {
    let bus = bus();
    bus.publish(end("a"));
    let (mut one, other) = (bus.subscribe(), bus.subscribe());
    bus.publish(end("b"));
    drop(other);
    bus.dispatch(end("c"));
    assert_eq!(one.next().now_or_never(), Some(Some(end("b"))));
    assert_eq!(one.next().now_or_never(), Some(Some(end("c"))));
    assert_eq!(one.next().now_or_never(), None);
    let told: Vec<_> = sent(bus.outgoing().unwrap());
    assert!(told.contains(&end("a")) && told.contains(&end("b")) && told.len() == 2, "{told:?}");
}

#[test]
fn a_listener_that_is_too_slow_is_told_to_look_at_everything() {
    let bus = bus();
    let mut slow = bus.subscribe();
    for _ in 0..=1_024 {
        bus.dispatch(end("a"));
    }
    assert_eq!(slow.next().now_or_never(), Some(Some(Wake::Everything)));
}

#[test]
fn a_transport_is_told_when_the_first_comes_and_when_the_last_goes() {
    let (bus, mail) = (bus(), queue("mail"));
    let mut interest = bus.interest();
    assert!(!interest.is_any() && interest.changed().now_or_never().is_none());
    let (one, other) = (bus.subscribe(), bus.listen());
    assert!(interest.changed().now_or_never().is_some() && interest.in_events() && !interest.in_work());
    drop(one);
    assert!(interest.changed().now_or_never().is_none() && interest.in_events());
    drop(other);
    assert!(interest.changed().now_or_never().is_some() && !interest.is_any());
    let mut claim = Box::pin(wait(&bus, &mail));
    assert!((&mut claim).now_or_never().is_none());
    assert!(interest.changed().now_or_never().is_some() && interest.in_work() && !interest.in_events());
    drop(claim);
    assert!(interest.changed().now_or_never().is_some() && !interest.is_any());
}

#[test]
fn a_caller_waits_until_what_it_told_was_sent() {
    let bus = bus();
    assert!(bus.flush().now_or_never().is_some());
    bus.publish(end("a"));
    let mut flushed = Box::pin(bus.flush());
    assert!((&mut flushed).now_or_never().is_none());
    sent(bus.outgoing().unwrap());
    assert!(flushed.now_or_never().is_some());
}
