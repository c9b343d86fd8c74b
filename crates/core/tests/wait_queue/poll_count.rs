//! How seldom waiting claims poll the store.

use std::time::Duration;

use tidemill_core::Clock;

use crate::world::{At, LONGEST, SHORTEST, World};

/// A number of claims that wait and have seen an empty queue.
fn idle(claims: usize, max: usize) -> World {
    let mut world = World::polling();
    (0..claims).for_each(|_| world.join(max));
    world.settle();
    world
}

#[test]
fn a_thousand_claims_look_once_when_they_begin() {
    assert_eq!(idle(1_000, 1).polls, 1);
}

#[test]
fn one_job_costs_two_looks_however_many_wait() {
    for max in [1, 10] {
        let mut world = idle(1_000, max);
        world.polls = 0;
        world.ready = 1;
        assert_eq!(world.notify(1), 1);
        world.settle();
        assert!(world.polls <= 2, "{} polls", world.polls);
        assert_eq!((world.ready, world.claimers.len()), (0, 999));
    }
}

#[test]
fn as_many_are_called_as_there_are_jobs() {
    let mut world = idle(10, 1);
    world.ready = 4;
    assert_eq!(world.notify(4), 4);
    assert_eq!(world.notify(usize::MAX), 1);
    world.settle();
    assert_eq!((world.ready, world.claimers.len()), (0, 6));
    assert_eq!(world.notify(1_000), 6);
}

#[test]
fn the_longest_waiting_is_called_first() {
    let mut world = idle(3, 1);
    world.notify(1);
    for index in 0..3 {
        world.step(index);
    }
    assert_eq!([world.at(0), world.at(1), world.at(2)], [At::Permit, At::Waiting, At::Waiting]);
}

#[test]
fn idle_claims_share_one_look_per_pause_and_pauses_grow() {
    let mut world = idle(1_000, 1);
    world.polls = 0;
    // One second, then two, each up to a quarter shorter, then four at a time.
    for _ in 0..24_000 {
        world.clock.advance(Duration::from_millis(1));
        world.settle();
    }
    assert!((7..=11).contains(&world.polls), "{} polls in 24 s", world.polls);
}

#[test]
fn a_ring_makes_the_next_pause_short_again() {
    let mut world = idle(2, 1);
    for _ in 0..5 {
        world.clock.advance(LONGEST);
        world.settle();
    }
    world.notify(1);
    world.settle();
    world.polls = 0;
    world.clock.advance(SHORTEST);
    world.settle();
    assert_eq!(world.polls, 1);
}

#[test]
fn a_backlog_nobody_told_of_is_shared_by_all_after_a_few_rounds() {
    let mut world = idle(64, 1);
    world.polls = 0;
    world.ready = 1_000;
    world.wait_queues.notify_all();
    let mut rounds = 0;
    while !world.claimers.is_empty() {
        rounds += 1;
        // All claims together: wake up, poll, get the answer.
        for _ in 0..3 {
            for index in (0..world.claimers.len()).rev() {
                world.step(index);
            }
        }
        assert!(rounds < 20, "{} still wait", world.claimers.len());
    }
    assert_eq!((world.ready, world.polls), (1_000 - 64, 64));
}

#[test]
fn a_newcomer_does_not_look_at_a_queue_that_was_just_seen_empty() {
    let mut world = idle(1, 1);
    world.claimers.clear();
    world.polls = 0;
    world.join(1);
    world.settle();
    assert_eq!(world.polls, 0);
    world.claimers.clear();
    // But it polls if the last poll was long ago, or a notification came since.
    world.clock.advance(SHORTEST);
    world.join(1);
    world.settle();
    assert_eq!(world.polls, 1);
    world.claimers.clear();
    world.notify(1);
    world.join(1);
    world.settle();
    assert_eq!(world.polls, 2);
}

#[test]
fn only_one_wakes_for_the_next_scheduled_job() {
    let mut world = idle(1_000, 2);
    world.scheduled.push(world.clock.now().after(Duration::from_millis(700)));
    world.notify(1);
    world.settle();
    world.polls = 0;
    world.clock.advance(Duration::from_millis(699));
    world.settle();
    assert_eq!(world.polls, 0);
    world.clock.advance(Duration::from_millis(1));
    world.settle();
    assert_eq!((world.polls, world.claimers.len()), (1, 999));
}

#[test]
fn an_outage_makes_one_claim_look_at_a_time() {
    let mut world = idle(100, 1);
    world.ready = 1;
    world.notify(1);
    world.step(0);
    world.fail(0);
    world.settle();
    assert_eq!((world.ready, world.claimers.len()), (1, 99), "no claim polls at once");
    world.clock.advance(Duration::from_millis(250));
    world.settle();
    assert_eq!((world.ready, world.claimers.len()), (0, 98));
}
