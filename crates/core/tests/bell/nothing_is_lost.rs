//! Whatever happens in whatever order: nobody sleeps on while there is work that nobody has looked at.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidemill_core::Clock;
use tidemill_core::wake::PollInterval;

use crate::world::{At, LONGEST, World};

#[derive(Debug, Clone, Copy)]
enum Event {
    /// Somebody begins to wait for up to so many jobs.
    Join(usize),
    /// Somebody gives up, wherever it is.
    Drop(usize),
    /// Somebody gets one step further.
    Step(usize),
    /// The store fails somebody.
    Fail(usize),
    /// Jobs are added; the ring for them comes later, or not at all.
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

/// What is yet to be rung.
#[derive(Default)]
struct Rings {
    pending: Vec<usize>,
    lost: bool,
}

fn happen(world: &mut World, rings: &mut Rings, event: Event) {
    let somebody = |index: usize| (!world.claimers.is_empty()).then(|| index % world.claimers.len());
    match event {
        Event::Join(max) => world.join(max),
        Event::Drop(index) => {
            if let Some(index) = somebody(index).filter(|index| world.at(*index) != At::Answered) {
                world.claimers.remove(index);
            }
        }
        Event::Step(index) => {
            somebody(index).map(|index| world.step(index));
        }
        Event::Fail(index) => {
            if let Some(index) = somebody(index).filter(|index| world.at(*index) == At::Turn) {
                world.fail(index);
            }
        }
        Event::Add(jobs) => {
            world.ready += jobs;
            rings.pending.push(jobs);
        }
        Event::Schedule(ms) => {
            world.scheduled.push(world.clock.now().after(Duration::from_millis(ms)));
            rings.pending.push(1);
        }
        Event::Ring => {
            rings.pending.pop().map(|jobs| world.ring(jobs));
        }
        Event::RingEveryone => {
            world.wait_queues.notify_all();
        }
        Event::LoseRing => rings.lost |= rings.pending.pop().is_some(),
        Event::Advance(ms) => world.clock.advance(Duration::from_millis(ms)),
    }
}

fn due(world: &World) -> usize {
    let now = world.clock.now();
    world.ready + world.scheduled.iter().filter(|due| **due <= now).count()
}

/// The failures there have been are over after this long.
const OVER: Duration = Duration::from_millis(250);

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn work_that_was_rung_for_is_taken_by_whoever_waits(events in vec(event(), 1..40)) {
        for pace in [PollInterval::NEVER, PollInterval::new(Duration::from_secs(1), LONGEST)] {
            let (mut world, mut rings) = (World::new(pace), Rings::default());
            for event in &events {
                happen(&mut world, &mut rings, *event);
            }
            for jobs in rings.pending.drain(..) {
                world.ring(jobs);
            }
            world.settle();
            world.clock.advance(OVER);
            world.settle();
            let idle = due(&world) == 0 || world.claimers.is_empty();
            prop_assert!(idle || rings.lost, "{} jobs wait for nobody at {pace:?}", due(&world));
        }
    }

    #[test]
    fn work_that_nobody_rang_for_is_taken_after_the_longest_pause(events in vec(event(), 1..40)) {
        let (mut world, mut rings) = (World::polling(), Rings::default());
        for event in &events {
            happen(&mut world, &mut rings, *event);
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
            world.ring(1);
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
