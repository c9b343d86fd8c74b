//! Property tests of the subscription against a server with slow replies, disconnects, and
//! confirmations that arrive after their connection is closed, in any order.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A step of the simulation.
#[derive(Debug, Clone, Copy)]
enum ServerStep {
    Join,
    Leave,
    /// The server executes the next request.
    Serve,
    /// The server refuses the next request and closes the connection.
    Refuse,
    /// A reply arrives.
    Answer,
    /// The connection is closed. Requests in progress fail later.
    Cut,
    /// One of the timers fires.
    Ring(usize),
}

fn step() -> impl Strategy<Value = ServerStep> {
    prop_oneof![
        4 => Just(ServerStep::Join),
        4 => Just(ServerStep::Leave),
        4 => Just(ServerStep::Serve),
        1 => Just(ServerStep::Refuse),
        4 => Just(ServerStep::Answer),
        2 => Just(ServerStep::Cut),
        3 => (0_usize..4).prop_map(ServerStep::Ring),
    ]
}

/// A server, a connection to it, and everything in transit between them.
struct ServerModel {
    subscription: ChannelSubscription,
    listeners: usize,
    /// How often this connection is subscribed.
    subscribed: usize,
    requests: VecDeque<SubscriptionAction>,
    replies: VecDeque<SubscriptionEvent>,
    timers: Vec<SubscriptionEvent>,
    /// Whether all listeners were notified of the last gap.
    notified: bool,
}

impl ServerModel {
    fn new() -> Self {
        Self {
            subscription: ChannelSubscription::new(),
            listeners: 0,
            subscribed: 0,
            requests: VecDeque::new(),
            replies: VecDeque::new(),
            timers: Vec::new(),
            notified: false,
        }
    }

    fn happen(&mut self, event: SubscriptionEvent) {
        match self.subscription.next(event).unwrap() {
            SubscriptionAction::Nothing => {}
            SubscriptionAction::NotifyGap => self.notified = true,
            SubscriptionAction::RetryLater(number) => self.timers.push(SubscriptionEvent::RetryDue(number)),
            SubscriptionAction::StartIdleTimer(number) => {
                self.timers.push(SubscriptionEvent::IdleTimeout(number))
            }
            request => self.requests.push_back(request),
        }
    }

    fn take(&mut self, step: ServerStep) {
        match step {
            ServerStep::Join => {
                self.listeners += 1;
                self.happen(SubscriptionEvent::Joined);
            }
            ServerStep::Leave if self.listeners > 0 => {
                self.listeners -= 1;
                self.happen(SubscriptionEvent::Left);
            }
            ServerStep::Serve => self.serve(),
            ServerStep::Refuse if !self.requests.is_empty() => self.cut(),
            ServerStep::Answer => {
                if let Some(reply) = self.replies.pop_front() {
                    self.happen(reply);
                }
            }
            ServerStep::Cut => self.cut(),
            ServerStep::Ring(index) if !self.timers.is_empty() => {
                let timer = self.timers.remove(index % self.timers.len());
                self.happen(timer);
            }
            ServerStep::Leave | ServerStep::Refuse | ServerStep::Ring(_) => {}
        }
    }

    fn serve(&mut self) {
        match self.requests.pop_front() {
            Some(SubscriptionAction::Subscribe(number)) => {
                self.subscribed += 1;
                self.replies.push_back(SubscriptionEvent::Confirmed(number));
            }
            Some(SubscriptionAction::Unsubscribe(number)) => {
                self.subscribed = self.subscribed.saturating_sub(1);
                self.replies.push_back(SubscriptionEvent::Confirmed(number));
            }
            _ => {}
        }
    }

    fn cut(&mut self) {
        (self.subscribed, self.notified) = (0, false);
        self.happen(SubscriptionEvent::Disconnected);
        // Earlier requests fail when their caller notices; requests caused by the disconnect are
        // new.
        for request in std::mem::take(&mut self.requests) {
            if let SubscriptionAction::Subscribe(number) | SubscriptionAction::Unsubscribe(number) = request {
                self.replies.push_back(SubscriptionEvent::Failed(number));
            }
        }
    }

    /// Delivers everything in transit, without further disconnects.
    fn settle(&mut self) {
        while !(self.requests.is_empty() && self.replies.is_empty() && self.timers.is_empty()) {
            self.serve();
            self.take(ServerStep::Answer);
            self.take(ServerStep::Ring(0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn whoever_listens_is_subscribed_once_and_nobody_else_is(steps in vec(step(), 1..120)) {
        let mut model = ServerModel::new();
        for step in steps {
            model.take(step);
            prop_assert!(model.subscribed <= 1, "subscribed twice after {step:?}");
            if model.subscription.state() == SubscriptionState::Running {
                prop_assert_eq!(model.subscribed, 1, "believes to be subscribed after {:?}", step);
            }
        }
        model.settle();
        let subscribed = usize::from(model.listeners > 0);
        prop_assert_eq!(model.subscribed, subscribed, "{} listen", model.listeners);
        let rest = if subscribed == 1 { SubscriptionState::Running } else { SubscriptionState::Idle };
        prop_assert_eq!(model.subscription.state(), rest);
        prop_assert!(model.notified || model.listeners == 0, "nobody was notified of the gap");
    }
}

#[test]
fn an_event_that_cannot_be_is_named_and_changes_nothing() {
    let mut subscription = ChannelSubscription::new();
    let illegal = subscription.next(SubscriptionEvent::Left).unwrap_err();
    assert_eq!(illegal.to_string(), "Left cannot happen to a subscription that is Idle");
    assert_eq!(subscription.next(SubscriptionEvent::Joined), Ok(SubscriptionAction::Subscribe(1)));
    assert!(subscription.next(SubscriptionEvent::IdleTimeout(1)).is_err());
    assert_eq!(subscription.next(SubscriptionEvent::Confirmed(1)), Ok(SubscriptionAction::NotifyGap));
    assert!(subscription.next(SubscriptionEvent::Confirmed(1)).is_err());
}

#[test]
fn a_short_absence_does_not_cost_a_subscription() {
    let mut subscription = ChannelSubscription::new();
    subscription.next(SubscriptionEvent::Joined).unwrap();
    subscription.next(SubscriptionEvent::Confirmed(1)).unwrap();
    let SubscriptionAction::StartIdleTimer(timer) = subscription.next(SubscriptionEvent::Left).unwrap()
    else {
        panic!("it stops lazily")
    };
    assert_eq!(subscription.next(SubscriptionEvent::Joined), Ok(SubscriptionAction::Nothing));
    assert_eq!(subscription.next(SubscriptionEvent::IdleTimeout(timer)), Ok(SubscriptionAction::Nothing));
    assert_eq!(subscription.state(), SubscriptionState::Running);
}
