//! In any order of events: no claim keeps waiting while there is work that no poll has seen.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidemill_core::Clock;
use tidemill_core::wake::PollInterval;

use crate::world::{At, LONGEST, World};

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A claim for up to so many jobs begins to wait.
    Join(usize),
    /// A claim is dropped at any stage.
    Drop(usize),
    /// A claim advances one step.
    Step(usize),
    /// The store returns an error to a claim.
    Fail(usize),
    /// Jobs are added; their notification comes later, or never.
    Add(usize),
    /// A job is added that is due later.
    Schedule(u64),
    Ring,
    RingEveryone,
    LoseRing,
    Advance(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1_usize..4).prop_map(Event::Join),
        3 => (0_usize..4).prop_map(Event::Drop),
        16 => (0_usize..4).prop_map(Event::Step),
        2 => (0_usize..4).prop_map(Event::Fail),
        4 => (1_usize..4).prop_map(Event::Add),
        2 => (1_u64..3_000).prop_map(Event::Schedule),
        6 => Just(Event::Ring),
        1 => Just(Event::RingEveryone),
        1 => Just(Event::LoseRing),
        2 => (1_u64..3_000).prop_map(Event::Advance),
    ]
}

/// Notifications that have not been sent yet.
#[derive(Default)]
struct PendingNotifications {
    pending: Vec<usize>,
    lost: bool,
}

fn happen(world: &mut World, notifications: &mut PendingNotifications, event: Event) {
    let pick = |index: usize| (!world.claimers.is_empty()).then(|| index % world.claimers.len());
    match event {
        Event::Join(max) => world.join(max),
        Event::Drop(index) => {
            if let Some(index) = pick(index).filter(|index| world.at(*index) != At::Answered) {
                world.claimers.remove(index);
            }
        }
        Event::Step(index) => {
            pick(index).map(|index| world.step(index));
        }
        Event::Fail(index) => {
            if let Some(index) = pick(index).filter(|index| world.at(*index) == At::Permit) {
                world.fail(index);
            }
        }
        Event::Add(jobs) => {
            world.ready += jobs;
            notifications.pending.push(jobs);
        }
        Event::Schedule(ms) => {
            world.scheduled.push(world.clock.now().after(Duration::from_millis(ms)));
            notifications.pending.push(1);
        }
        Event::Ring => {
            notifications.pending.pop().map(|jobs| world.notify(jobs));
        }
        Event::RingEveryone => {
            world.wait_queues.notify_all();
        }
        Event::LoseRing => notifications.lost |= notifications.pending.pop().is_some(),
        Event::Advance(ms) => world.clock.advance(Duration::from_millis(ms)),
    }
}

fn due(world: &World) -> usize {
    let now = world.clock.now();
    world.ready + world.scheduled.iter().filter(|due| **due <= now).count()
}

/// After this long, failed polls have been retried.
const RETRY_DELAY: Duration = Duration::from_millis(250);

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn announced_work_is_taken_by_a_waiting_claim(events in vec(event(), 1..40)) {
        for interval in [PollInterval::NEVER, PollInterval::new(Duration::from_secs(1), LONGEST)] {
            let (mut world, mut notifications) = (World::new(interval), PendingNotifications::default());
            for event in &events {
                happen(&mut world, &mut notifications, *event);
            }
            for jobs in notifications.pending.drain(..) {
                world.notify(jobs);
            }
            world.settle();
            world.clock.advance(RETRY_DELAY);
            world.settle();
            let idle = due(&world) == 0 || world.claimers.is_empty();
            prop_assert!(idle || notifications.lost, "{} jobs wait without a poll at {interval:?}", due(&world));
        }
    }

    #[test]
    fn work_that_nobody_rang_for_is_taken_after_the_longest_pause(events in vec(event(), 1..40)) {
        let (mut world, mut notifications) = (World::polling(), PendingNotifications::default());
        for event in &events {
            happen(&mut world, &mut notifications, *event);
        }
        world.settle();
        for _ in 0..2 {
            world.clock.advance(LONGEST);
            world.settle();
        }
        prop_assert!(due(&world) == 0 || world.claimers.is_empty(), "{} jobs wait", due(&world));
    }

    #[test]
    fn what_is_scheduled_is_taken_when_it_is_due(delays in vec(1_u64..100_000, 1..10)) {
        let mut world = World::new(PollInterval::NEVER);
        (0..delays.len()).for_each(|_| world.join(1));
        world.settle();
        for delay in &delays {
            world.scheduled.push(world.clock.now().after(Duration::from_millis(*delay)));
            world.notify(1);
            world.settle();
        }
        let mut sorted = delays.clone();
        sorted.sort_unstable();
        for (passed, delay) in sorted.iter().enumerate() {
            let now = world.clock.now().0.unsigned_abs();
            world.clock.advance(Duration::from_millis(delay - now));
            world.settle();
            let later = sorted.iter().filter(|other| *other > delay).count();
            prop_assert_eq!(world.claimers.len(), later, "after {} jobs", passed + 1);
        }
    }
}
