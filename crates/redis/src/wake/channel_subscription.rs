//! A process's one subscription to a channel: idle → starting → running → stopping. Pure: events go in, and
//! what is to be done comes out.
//!
//! Whatever takes time has a number, and what comes back with an old one is ignored: the confirmation of a
//! connection that is gone, or a timer set for listeners who have left since.

/// What the subscription is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody listens, and nothing is subscribed.
    Idle,
    /// Somebody listens, and the server has not confirmed yet, or has not even been asked.
    Starting(Stage),
    /// The server has confirmed.
    Running,
    /// The server has been asked to stop and has not confirmed yet.
    Stopping,
}

/// How far a start has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The server has been asked.
    Asked,
    /// After a failure, waiting before it is asked again.
    Resting,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Somebody began to listen.
    Joined,
    /// Somebody stopped listening.
    Left,
    /// The server has confirmed what this request asked for.
    Confirmed(Number),
    /// This request has failed.
    Failed(Number),
    /// The connection is gone, and every subscription with it.
    Cut,
    /// This rest is over.
    Rested(Number),
    /// Nobody has listened for a while.
    Lingered(Number),
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing.
    Nothing,
    /// Ask the server to subscribe.
    Subscribe(Number),
    /// Ask the server to unsubscribe.
    Unsubscribe(Number),
    /// Tell everybody who listens that they may have missed something.
    Resume,
    /// Say when it has been quiet for a while.
    Rest(Number),
    /// Say when nobody has listened for a while.
    Linger(Number),
}

/// The number of a request or a timer.
pub(super) type Number = u64;

/// An event that cannot happen in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} cannot happen to a subscription that is {state:?}")]
pub(super) struct Illegal {
    state: State,
    event: Event,
}

/// One channel's subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    state: State,
    listeners: usize,
    /// The number given out last. What comes back with another is out of date.
    current: Number,
}

impl Subscription {
    pub(super) fn new() -> Self {
        Self { state: State::Idle, listeners: 0, current: 0 }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Takes note of an event; says what to do about it. An illegal one changes nothing.
    pub(super) fn next(&mut self, event: Event) -> Result<Action, Illegal> {
        match event {
            Event::Joined => Ok(self.joined()),
            Event::Left if self.listeners > 0 => Ok(self.left()),
            Event::Cut => Ok(self.cut()),
            Event::Confirmed(number)
            | Event::Failed(number)
            | Event::Rested(number)
            | Event::Lingered(number)
                if number != self.current =>
            {
                Ok(Action::Nothing)
            }
            Event::Confirmed(_) => self.confirmed(event),
            Event::Failed(_) => self.failed(event),
            Event::Rested(_) if self.state == State::Starting(Stage::Resting) => Ok(self.ask()),
            Event::Lingered(_) if self.state == State::Running => Ok(self.stop()),
            Event::Left | Event::Rested(_) | Event::Lingered(_) => Err(self.illegal(event)),
        }
    }

    fn joined(&mut self) -> Action {
        self.listeners += 1;
        match self.state {
            State::Idle => self.ask(),
            // A timer for stopping that still runs is out of date from now on.
            State::Running => {
                self.current += 1;
                Action::Nothing
            }
            State::Starting(_) | State::Stopping => Action::Nothing,
        }
    }

    fn left(&mut self) -> Action {
        self.listeners -= 1;
        match self.state {
            State::Running if self.listeners == 0 => Action::Linger(self.renumber()),
            State::Starting(Stage::Resting) if self.listeners == 0 => self.rest_in_peace(),
            _ => Action::Nothing,
        }
    }

    fn confirmed(&mut self, event: Event) -> Result<Action, Illegal> {
        match self.state {
            State::Starting(Stage::Asked) if self.listeners == 0 => Ok(self.stop()),
            State::Starting(Stage::Asked) => {
                self.state = State::Running;
                Ok(Action::Resume)
            }
            State::Stopping if self.listeners > 0 => Ok(self.ask()),
            State::Stopping => Ok(self.rest_in_peace()),
            State::Idle | State::Running | State::Starting(Stage::Resting) => Err(self.illegal(event)),
        }
    }

    fn failed(&mut self, event: Event) -> Result<Action, Illegal> {
        match self.state {
            State::Starting(Stage::Asked) | State::Stopping => Ok(self.cut()),
            State::Idle | State::Running | State::Starting(Stage::Resting) => Err(self.illegal(event)),
        }
    }

    /// There is no subscription any more. Whoever listens gets a new one after a rest.
    fn cut(&mut self) -> Action {
        match self.state {
            State::Idle | State::Starting(Stage::Resting) => Action::Nothing,
            _ if self.listeners == 0 => self.rest_in_peace(),
            _ => {
                self.state = State::Starting(Stage::Resting);
                Action::Rest(self.renumber())
            }
        }
    }

    fn ask(&mut self) -> Action {
        self.state = State::Starting(Stage::Asked);
        Action::Subscribe(self.renumber())
    }

    fn stop(&mut self) -> Action {
        self.state = State::Stopping;
        Action::Unsubscribe(self.renumber())
    }

    fn rest_in_peace(&mut self) -> Action {
        self.state = State::Idle;
        self.renumber();
        Action::Nothing
    }

    /// Whether something with this number is about how things are now.
    pub(super) fn is_current(&self, number: Number) -> bool {
        number == self.current
    }

    fn renumber(&mut self) -> Number {
        self.current += 1;
        self.current
    }

    fn illegal(&self, event: Event) -> Illegal {
        Illegal { state: self.state, event }
    }
}

#[cfg(test)]
#[path = "interleavings.rs"]
mod interleavings;
