//! How many claims poll for an announcement, and how many shares of its hint they take.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tidemill_core::wake::{PollInterval, Polled};
use tidemill_core::{Clock, Timestamp};

use super::*;

/// One hint with a number of shares.
#[derive(Default)]
struct Shares(AtomicUsize);

impl TakeHint for Shares {
    async fn take_hint(&self, _: &Hint) -> bool {
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |shares| shares.checked_sub(1)).is_ok()
    }
}

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

/// A bus with waiting claims for each of these queues, and the number of their polls.
struct World {
    bus: Arc<Bus>,
    shares: Shares,
    polls: Arc<AtomicUsize>,
    tasks: FuturesUnordered<Pin<Box<dyn Future<Output = ()>>>>,
}

impl World {
    fn new(waiting: &[(&str, usize)]) -> Self {
        let bus = Arc::new(Bus::new(PollInterval::NEVER));
        let world =
            Self { bus, shares: Shares::default(), polls: Arc::default(), tasks: FuturesUnordered::new() };
        for (name, count) in waiting {
            for _ in 0..*count {
                world.tasks.push(Box::pin(wait(world.bus.clone(), queue(name), world.polls.clone())));
            }
        }
        world
    }

    /// Runs all tasks and returns how many polls they made.
    fn polls(&mut self) -> usize {
        // One poll of all tasks lets each make a step or two, and nothing here takes many.
        for _ in 0..100 {
            assert!(self.tasks.next().now_or_never().flatten().is_none(), "no task here ever ends");
        }
        self.polls.swap(0, Ordering::SeqCst)
    }

    fn receive(&mut self, type_name: &str, hint: Option<&str>, shares: usize) -> usize {
        self.shares.0.store(shares, Ordering::SeqCst);
        let hint = hint.map(|hint| hint.parse().unwrap());
        let announcement = Announcement { type_name: type_name.into(), hint };
        dispatch(&announcement, &self.bus, &self.shares).now_or_never().unwrap();
        self.polls()
    }

    fn shares(&self) -> usize {
        self.shares.0.load(Ordering::SeqCst)
    }
}

/// Polls whenever it is notified, and never finds anything.
async fn wait(bus: Arc<Bus>, queue: Queue, polls: Arc<AtomicUsize>) {
    loop {
        let permit = bus.wait_queues().poll_permit(&queue, &NoTime).await;
        polls.fetch_add(1, Ordering::SeqCst);
        permit.finish(Ok(Polled::default())).unwrap();
    }
}

/// Polls when it is notified, and does not return from it.
async fn poll_forever(bus: Arc<Bus>, queue: Queue) {
    let _permit = bus.wait_queues().poll_permit(&queue, &NoTime).await;
    std::future::pending().await
}

const FOREIGN: Option<&str> = Some("550e8400-e29b-41d4-a716-446655440000");

#[test]
fn a_share_of_the_hint_is_taken_for_everyone_who_is_called() {
    let mut world = World::new(&[("mail", 5), ("other", 5)]);
    world.polls();
    assert_eq!(world.receive("mail", FOREIGN, 3), 3);
    assert_eq!(world.shares(), 0);
    assert_eq!(world.receive("mail", FOREIGN, 0), 0);
}

#[test]
fn whoever_looks_in_vain_is_not_called_again_for_the_same_hint() {
    let mut world = World::new(&[("mail", 20)]);
    world.polls();
    assert_eq!(world.receive("mail", FOREIGN, 1_000), 20);
    assert_eq!(world.shares(), 980);
}

#[test]
fn no_more_shares_are_taken_than_there_are_who_wait() {
    let mut world = World::new(&[]);
    for _ in 0..20 {
        world.tasks.push(Box::pin(poll_forever(world.bus.clone(), queue("mail"))));
    }
    world.polls();
    let waiting = world.bus.wait_queues().waiting(&queue("mail"));
    assert!(waiting > 10, "{waiting} wait");
    world.receive("mail", FOREIGN, 1_000);
    assert_eq!(world.shares(), 1_000 - waiting);
    assert_eq!(world.bus.wait_queues().waiting(&queue("mail")), 0);
}

#[test]
fn a_type_that_is_no_queue_here_calls_one_of_each_for_a_share_each() {
    let mut world = World::new(&[("mail", 5), ("other", 5)]);
    world.polls();
    assert_eq!(world.receive("process-order", FOREIGN, 10), 2);
    assert_eq!(world.shares(), 8);
    assert_eq!(world.receive("process-order", FOREIGN, 1), 1);
    assert_eq!(world.receive("process-order", None, 0), 2);
}

#[test]
fn a_queue_of_our_own_that_nobody_works_on_here_is_left_to_the_others() {
    let mut world = World::new(&[("mail", 5)]);
    world.polls();
    assert_eq!(world.receive("reports", Some(&Hint::generate().to_string()), 10), 0);
    assert_eq!(world.shares(), 10);
}

#[test]
fn what_comes_while_nobody_waits_makes_the_next_one_look() {
    let mut world = World::new(&[("mail", 1)]);
    world.polls();
    world.tasks.clear();
    world.receive("mail", FOREIGN, 10);
    assert_eq!(world.shares(), 10);
    world.tasks.push(Box::pin(wait(world.bus.clone(), queue("mail"), world.polls.clone())));
    assert_eq!(world.polls(), 1);
}
