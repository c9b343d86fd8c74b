//! The subscription against a server whose answers are slow, whose connection is cut, and whose confirmations
//! arrive after the connection they came from is gone, in any order.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// What the proptest makes happen.
#[derive(Debug, Clone, Copy)]
enum Step {
    Join,
    Leave,
    /// The server does what it was asked next.
    Serve,
    /// The server refuses what it was asked next, and cuts the connection, as a driver does that gave up.
    Refuse,
    /// An answer arrives.
    Answer,
    /// The connection is cut. What was under way fails, late.
    Cut,
    /// A timer runs out, whichever.
    Ring(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Join),
        4 => Just(Step::Leave),
        4 => Just(Step::Serve),
        1 => Just(Step::Refuse),
        4 => Just(Step::Answer),
        2 => Just(Step::Cut),
        3 => (0_usize..4).prop_map(Step::Ring),
    ]
}

/// A server, a connection to it, and everything that is under way between them.
struct World {
    subscription: Subscription,
    listeners: usize,
    /// How often the server has this connection subscribed.
    subscribed: usize,
    asked: VecDeque<Action>,
    answers: VecDeque<Event>,
    timers: Vec<Event>,
    /// Whether everybody who listens knows what they may have missed.
    told: bool,
}

impl World {
    fn new() -> Self {
        Self {
            subscription: Subscription::new(),
            listeners: 0,
            subscribed: 0,
            asked: VecDeque::new(),
            answers: VecDeque::new(),
            timers: Vec::new(),
            told: false,
        }
    }

    fn happen(&mut self, event: Event) {
        match self.subscription.next(event).unwrap() {
            Action::Nothing => {}
            Action::Resume => self.told = true,
            Action::Rest(number) => self.timers.push(Event::Rested(number)),
            Action::Linger(number) => self.timers.push(Event::Lingered(number)),
            request => self.asked.push_back(request),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Join => {
                self.listeners += 1;
                self.happen(Event::Joined);
            }
            Step::Leave if self.listeners > 0 => {
                self.listeners -= 1;
                self.happen(Event::Left);
            }
            Step::Serve => self.serve(),
            Step::Refuse if !self.asked.is_empty() => self.cut(),
            Step::Answer => {
                if let Some(answer) = self.answers.pop_front() {
                    self.happen(answer);
                }
            }
            Step::Cut => self.cut(),
            Step::Ring(index) if !self.timers.is_empty() => {
                let timer = self.timers.remove(index % self.timers.len());
                self.happen(timer);
            }
            Step::Leave | Step::Refuse | Step::Ring(_) => {}
        }
    }

    fn serve(&mut self) {
        match self.asked.pop_front() {
            Some(Action::Subscribe(number)) => {
                self.subscribed += 1;
                self.answers.push_back(Event::Confirmed(number));
            }
            Some(Action::Unsubscribe(number)) => {
                self.subscribed = self.subscribed.saturating_sub(1);
                self.answers.push_back(Event::Confirmed(number));
            }
            _ => {}
        }
    }

    fn cut(&mut self) {
        (self.subscribed, self.told) = (0, false);
        self.happen(Event::Cut);
        // What had been asked before fails when its caller notices; what is asked because of the cut is new.
        for request in std::mem::take(&mut self.asked) {
            if let Action::Subscribe(number) | Action::Unsubscribe(number) = request {
                self.answers.push_back(Event::Failed(number));
            }
        }
    }

    /// Nothing more is cut, and everything that is under way arrives.
    fn settle(&mut self) {
        while !(self.asked.is_empty() && self.answers.is_empty() && self.timers.is_empty()) {
            self.serve();
            self.take(Step::Answer);
            self.take(Step::Ring(0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn whoever_listens_is_subscribed_once_and_nobody_else_is(steps in vec(step(), 1..120)) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
            prop_assert!(world.subscribed <= 1, "subscribed twice after {step:?}");
            if world.subscription.state() == State::Running {
                prop_assert_eq!(world.subscribed, 1, "believes to be subscribed after {:?}", step);
            }
        }
        world.settle();
        let subscribed = usize::from(world.listeners > 0);
        prop_assert_eq!(world.subscribed, subscribed, "{} listen", world.listeners);
        let rest = if subscribed == 1 { State::Running } else { State::Idle };
        prop_assert_eq!(world.subscription.state(), rest);
        prop_assert!(world.told || world.listeners == 0, "nobody was told of the gap");
    }
}

#[test]
fn an_event_that_cannot_be_is_named_and_changes_nothing() {
    let mut subscription = Subscription::new();
    let illegal = subscription.next(Event::Left).unwrap_err();
    assert_eq!(illegal.to_string(), "Left cannot happen to a subscription that is Idle");
    assert_eq!(subscription.next(Event::Joined), Ok(Action::Subscribe(1)));
    assert!(subscription.next(Event::Lingered(1)).is_err());
    assert_eq!(subscription.next(Event::Confirmed(1)), Ok(Action::Resume));
    assert!(subscription.next(Event::Confirmed(1)).is_err());
}

#[test]
fn a_short_absence_does_not_cost_a_subscription() {
    let mut subscription = Subscription::new();
    subscription.next(Event::Joined).unwrap();
    subscription.next(Event::Confirmed(1)).unwrap();
    let Action::Linger(timer) = subscription.next(Event::Left).unwrap() else { panic!("it stops lazily") };
    assert_eq!(subscription.next(Event::Joined), Ok(Action::Nothing));
    assert_eq!(subscription.next(Event::Lingered(timer)), Ok(Action::Nothing));
    assert_eq!(subscription.state(), State::Running);
}
