//! `advance`: applies new events to a run and returns its next commit.

use tidemill_core::workflow::{ActivityResult, Command, Commit, PositionedEvent};

use super::{Advance, LocalResult, Replayer};
use crate::blocked::Blocked;
use crate::state::{WaitResult, WaitTarget};

impl Replayer {
    /// Consumes the events that the journal holds after its last commit, then `events`. Skips
    /// events it received before, so a repeated delivery has no effect. Events after the run's end
    /// are not consumed.
    ///
    /// The caller writes the commit with a compare-and-set on the previous
    /// [`consumed`](Self::consumed). If the store rejects the commit, the caller must drop the
    /// replayer: its state is not the journal's.
    pub fn advance(&mut self, events: impl IntoIterator<Item = PositionedEvent>) -> Result<Advance, Blocked> {
        for event in events {
            if event.position > self.last_received() {
                self.pending.push_back(event);
            }
        }
        self.unless_blocked(Self::run_to_commit)
    }

    /// The position of the last event it received.
    fn last_received(&self) -> u64 {
        self.pending.back().map_or(self.consumed, |event| event.position)
    }

    fn run_to_commit(&mut self) -> Result<Advance, Blocked> {
        loop {
            if self.end.is_some() {
                break;
            }
            if let Some(finished) = self.local_results.pop_front() {
                self.complete_local(finished)?;
            } else if let Some(locals) = self.take_new_locals() {
                return Ok(Advance::Local(locals));
            } else if let Some(next) = self.pending.pop_front() {
                self.apply(next)?;
            } else {
                break;
            }
        }
        if self.pending.is_empty() {
            // The run may stay cached for long, so spare capacity is returned.
            self.pending.shrink_to_fit();
        }
        let (commands, awaits) = {
            let mut state = self.shared.lock();
            (state.commands.take_new(), state.awaited_messages())
        };
        self.children.add_commands(&commands);
        Ok(Advance::Commit(Commit { upto: self.consumed, commands, end: self.end.clone(), awaits }))
    }

    /// Records the result of a local activity. Call [`advance`](Self::advance) afterwards.
    pub fn finish_local(&mut self, seq: u64, result: ActivityResult, attempts: u32) {
        self.local_results.push_back(LocalResult { seq, result, attempts });
    }

    /// If the code waits for local activities: those not handed out yet.
    fn take_new_locals(&self) -> Option<Vec<super::LocalActivity>> {
        let mut state = self.shared.lock();
        let waits = state.waits.has_locals();
        waits.then(|| std::mem::take(&mut state.new_locals))
    }

    /// Passes the result of a local activity to the code, one at a time like an event. Ignored if
    /// the code no longer waits for it.
    fn complete_local(&mut self, finished: LocalResult) -> Result<(), Blocked> {
        let LocalResult { seq, result, attempts } = finished;
        {
            let mut state = self.shared.lock();
            let Some(WaitTarget::LocalActivity(name)) = state.waits.target(seq) else { return Ok(()) };
            let Ok(name) = name.parse() else { return Ok(()) };
            state.issue(Command::LocalActivity { seq, name, result: result.clone(), attempts });
            state.waits.complete(seq, WaitResult::Activity(result));
        }
        self.poll_ready()
    }
}
