//! Random programs: every replay of a workflow does the same.

mod language;

use proptest::prelude::*;
use tidemill_workflow::testing::{TestWorld, replay_every_prefix};

use language::{PROGRAM, Step, interpret, program, world};

/// How the simulation is disturbed.
#[derive(Debug, Clone)]
struct Disturbance {
    seed: u64,
    signals: Vec<(u64, bool)>,
    cancel: Option<u64>,
}

fn disturbance() -> impl Strategy<Value = Disturbance> {
    let signals = proptest::collection::vec((0..300_u64, any::<bool>()), 0..6);
    (any::<u64>(), signals, proptest::option::weighted(0.3, 0..300_u64))
        .prop_map(|(seed, signals, cancel)| Disturbance { seed, signals, cancel })
}

fn disturbed(disturbance: &Disturbance) -> TestWorld {
    let mut world = world().workflow(&PROGRAM, interpret).randomized(disturbance.seed);
    for (number, (at, which)) in disturbance.signals.iter().enumerate() {
        let signal = if *which { &language::RED } else { &language::BLUE };
        world = world.signal_at(std::time::Duration::from_millis(*at), signal, &(number as u64));
    }
    match disturbance.cancel {
        Some(at) => world.cancel_at(std::time::Duration::from_millis(at)),
        None => world,
    }
}

fn check(program: &[Step], disturbance: &Disturbance) {
    let ends = [false, true].map(|crashing| {
        let world = disturbed(disturbance);
        let world = if crashing { world.crashing() } else { world };
        let programs = world.programs().clone();
        let ended = world.run(&PROGRAM, program.to_vec()).unwrap();
        for journal in &ended.journals {
            replay_every_prefix(&programs, journal).unwrap();
        }
        ended
    });
    let [calm, crashed] = &ends;
    assert_eq!(calm.result(), crashed.result());
    assert_eq!(calm.journals, crashed.journals);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_program_replays_from_every_prefix(program in program(), disturbance in disturbance()) {
        check(&program, &disturbance);
    }
}

/// Takes a few minutes in a debug build.
#[test]
#[ignore = "takes minutes"]
fn thousands_of_programs_replay_from_every_prefix() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 10_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&(program(), disturbance()), |(program, disturbance)| {
        check(&program, &disturbance);
        Ok(())
    });
    outcome.unwrap();
}
