//! Ending waits before they are answered: because the run is to cancel, or because nobody waits any more.

use tidemill_core::workflow::Command;

use super::State;
use super::waits::{On, Outcome};
use crate::select::is_losing;

impl State {
    /// Somebody asks the run to cancel. Code that listens for it decides; for code that does not, everything it
    /// waits for ends.
    pub(crate) fn request_cancel(&mut self) {
        self.cancelling = true;
        let listeners = self.waits.select(|wait| wait.on == On::Cancel);
        for (key, _) in &listeners {
            self.waits.answer(*key, Outcome::Happened);
        }
        if !listeners.is_empty() {
            return;
        }
        for (key, on) in self.waits.select(|wait| !wait.shielded && on_is_cancellable(wait.on)) {
            self.withdraw(key, on);
            self.waits.answer(key, Outcome::Cancelled);
        }
    }

    /// The future of a wait was dropped.
    pub(crate) fn abandon(&mut self, key: u64) {
        let Some(wait) = self.waits.close(key) else { return };
        match wait.outcome.map(|outcome| *outcome) {
            None => self.withdraw(key, wait.on),
            Some(Outcome::Message(message)) => {
                let inbox =
                    if matches!(wait.on, On::Update(_)) { &mut self.updates } else { &mut self.signals };
                if let Some((other, message)) = inbox.give_back(message, |key| self.waits.is_open(key)) {
                    self.waits.answer(other, Outcome::Message(message));
                }
            }
            Some(_) => {}
        }
    }

    /// Takes back what was asked for.
    fn withdraw(&mut self, key: u64, on: On) {
        match on {
            On::Activity(_) => self.issue(Command::CancelActivity { seq: key }),
            On::Timer => self.issue(Command::CancelTimer { seq: key }),
            // When the parent ends, its children are treated as was said when they were started.
            On::Child(_) if !self.closing => {
                if is_losing() {
                    self.losers.push(key);
                }
                self.issue(Command::CancelChild { seq: key });
            }
            On::Signal(name) => self.signals.forget(name, key),
            On::Update(name) => self.updates.forget(name, key),
            On::Local(_) => self.locals.retain(|local| local.seq != key),
            On::Child(_) | On::Sent(_) | On::Cancel | On::Task => {}
        }
    }
}

/// Whether a wait ends when the run is asked to cancel. A task that waits for another of its own run ends when
/// that one does.
fn on_is_cancellable(on: On) -> bool {
    matches!(on, On::Activity(_) | On::Timer | On::Child(_) | On::Signal(_) | On::Update(_))
}
