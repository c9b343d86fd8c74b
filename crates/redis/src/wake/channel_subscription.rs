//! State machine of the process's subscription to one channel: idle → starting → running →
//! stopping. Pure: it consumes events and returns actions.
//!
//! Requests and timers have numbers, and events with an old number are ignored: the confirmation of
//! a closed connection, or a timer that was set for listeners that have left.

/// The state of the subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubscriptionState {
    /// No listener, no subscription.
    Idle,
    /// There are listeners, and the server has not confirmed yet, or has not been asked.
    Starting(StartStage),
    /// The server has confirmed.
    Running,
    /// The server has been asked to unsubscribe and has not confirmed yet.
    Stopping,
}

/// The progress of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartStage {
    /// The server has been asked.
    Requested,
    /// After a failure, waiting before the next request.
    WaitingToRetry,
}

/// An event of the subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubscriptionEvent {
    /// A listener was added.
    Joined,
    /// A listener was removed.
    Left,
    /// The server has confirmed this request.
    Confirmed(RequestNumber),
    /// This request has failed.
    Failed(RequestNumber),
    /// The connection is closed, and with it every subscription.
    Disconnected,
    /// The retry delay is over.
    RetryDue(RequestNumber),
    /// There has been no listener for a while.
    IdleTimeout(RequestNumber),
}

/// The action to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubscriptionAction {
    /// Nothing.
    Nothing,
    /// Ask the server to subscribe.
    Subscribe(RequestNumber),
    /// Ask the server to unsubscribe.
    Unsubscribe(RequestNumber),
    /// Notify all listeners that they may have missed messages.
    NotifyGap,
    /// Send `RetryDue` after a delay.
    RetryLater(RequestNumber),
    /// Send `IdleTimeout` after a delay.
    StartIdleTimer(RequestNumber),
}

/// The number of a request or a timer.
pub(super) type RequestNumber = u64;

/// An event that cannot happen in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} cannot happen to a subscription that is {state:?}")]
pub(super) struct IllegalEvent {
    state: SubscriptionState,
    event: SubscriptionEvent,
}

/// One channel's subscription.
#[derive(Debug)]
pub(super) struct ChannelSubscription {
    state: SubscriptionState,
    listeners: usize,
    /// The last number. Events with another number are out of date.
    current: RequestNumber,
}

impl ChannelSubscription {
    pub(super) fn new() -> Self {
        Self { state: SubscriptionState::Idle, listeners: 0, current: 0 }
    }

    pub(super) fn state(&self) -> SubscriptionState {
        self.state
    }

    /// Applies an event and returns the action to take. An illegal event changes nothing.
    pub(super) fn next(&mut self, event: SubscriptionEvent) -> Result<SubscriptionAction, IllegalEvent> {
        match event {
            SubscriptionEvent::Joined => Ok(self.joined()),
            SubscriptionEvent::Left if self.listeners > 0 => Ok(self.left()),
            SubscriptionEvent::Disconnected => Ok(self.disconnected()),
            SubscriptionEvent::Confirmed(number)
            | SubscriptionEvent::Failed(number)
            | SubscriptionEvent::RetryDue(number)
            | SubscriptionEvent::IdleTimeout(number)
                if number != self.current =>
            {
                Ok(SubscriptionAction::Nothing)
            }
            SubscriptionEvent::Confirmed(_) => self.confirmed(event),
            SubscriptionEvent::Failed(_) => self.failed(event),
            SubscriptionEvent::RetryDue(_)
                if self.state == SubscriptionState::Starting(StartStage::WaitingToRetry) =>
            {
                Ok(self.request())
            }
            SubscriptionEvent::IdleTimeout(_) if self.state == SubscriptionState::Running => Ok(self.stop()),
            SubscriptionEvent::Left | SubscriptionEvent::RetryDue(_) | SubscriptionEvent::IdleTimeout(_) => {
                Err(self.illegal(event))
            }
        }
    }

    fn joined(&mut self) -> SubscriptionAction {
        self.listeners += 1;
        match self.state {
            SubscriptionState::Idle => self.request(),
            // Outdates a running idle timer.
            SubscriptionState::Running => {
                self.current += 1;
                SubscriptionAction::Nothing
            }
            SubscriptionState::Starting(_) | SubscriptionState::Stopping => SubscriptionAction::Nothing,
        }
    }

    fn left(&mut self) -> SubscriptionAction {
        self.listeners -= 1;
        match self.state {
            SubscriptionState::Running if self.listeners == 0 => {
                SubscriptionAction::StartIdleTimer(self.renumber())
            }
            SubscriptionState::Starting(StartStage::WaitingToRetry) if self.listeners == 0 => {
                self.become_idle()
            }
            _ => SubscriptionAction::Nothing,
        }
    }

    fn confirmed(&mut self, event: SubscriptionEvent) -> Result<SubscriptionAction, IllegalEvent> {
        match self.state {
            SubscriptionState::Starting(StartStage::Requested) if self.listeners == 0 => Ok(self.stop()),
            SubscriptionState::Starting(StartStage::Requested) => {
                self.state = SubscriptionState::Running;
                Ok(SubscriptionAction::NotifyGap)
            }
            SubscriptionState::Stopping if self.listeners > 0 => Ok(self.request()),
            SubscriptionState::Stopping => Ok(self.become_idle()),
            SubscriptionState::Idle
            | SubscriptionState::Running
            | SubscriptionState::Starting(StartStage::WaitingToRetry) => Err(self.illegal(event)),
        }
    }

    fn failed(&mut self, event: SubscriptionEvent) -> Result<SubscriptionAction, IllegalEvent> {
        match self.state {
            SubscriptionState::Starting(StartStage::Requested) | SubscriptionState::Stopping => {
                Ok(self.disconnected())
            }
            SubscriptionState::Idle
            | SubscriptionState::Running
            | SubscriptionState::Starting(StartStage::WaitingToRetry) => Err(self.illegal(event)),
        }
    }

    /// The subscription is gone. If there are listeners, it is requested again after a delay.
    fn disconnected(&mut self) -> SubscriptionAction {
        match self.state {
            SubscriptionState::Idle | SubscriptionState::Starting(StartStage::WaitingToRetry) => {
                SubscriptionAction::Nothing
            }
            _ if self.listeners == 0 => self.become_idle(),
            _ => {
                self.state = SubscriptionState::Starting(StartStage::WaitingToRetry);
                SubscriptionAction::RetryLater(self.renumber())
            }
        }
    }

    fn request(&mut self) -> SubscriptionAction {
        self.state = SubscriptionState::Starting(StartStage::Requested);
        SubscriptionAction::Subscribe(self.renumber())
    }

    fn stop(&mut self) -> SubscriptionAction {
        self.state = SubscriptionState::Stopping;
        SubscriptionAction::Unsubscribe(self.renumber())
    }

    fn become_idle(&mut self) -> SubscriptionAction {
        self.state = SubscriptionState::Idle;
        self.renumber();
        SubscriptionAction::Nothing
    }

    /// Whether this number is the current one.
    pub(super) fn is_current(&self, number: RequestNumber) -> bool {
        number == self.current
    }

    fn renumber(&mut self) -> RequestNumber {
        self.current += 1;
        self.current
    }

    fn illegal(&self, event: SubscriptionEvent) -> IllegalEvent {
        IllegalEvent { state: self.state, event }
    }
}

#[cfg(test)]
#[path = "interleavings.rs"]
mod interleavings;
