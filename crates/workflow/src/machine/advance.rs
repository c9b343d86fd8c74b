//! Carrying a run on with what has come since.

use tidemill_core::workflow::{ActivityResult, Command, Commit, PositionedEvent};

use super::{Advance, Finished, Machine};
use crate::halt::Halt;
use crate::state::{On, Outcome};

impl Machine {
    /// Consumes what the journal held beyond its last commit, and `arrived`, in this order. An event that was given
    /// before is passed over, so that a delivery that comes twice does no harm. When the run ends, what is left is
    /// not consumed.
    ///
    /// The commit is to be made by a compare-and-set on what was [`consumed`](Self::consumed) before. A machine whose
    /// commit was refused has gone astray and must be dropped.
    pub fn advance(&mut self, arrived: impl IntoIterator<Item = PositionedEvent>) -> Result<Advance, Halt> {
        for event in arrived {
            if event.position > self.taken() {
                self.pending.push_back(event);
            }
        }
        self.unless_halted(Self::step)
    }

    /// The position of the last event it has been given.
    fn taken(&self) -> u64 {
        self.pending.back().map_or(self.consumed, |event| event.position)
    }

    fn step(&mut self) -> Result<Advance, Halt> {
        loop {
            if self.end.is_some() {
                break;
            }
            if let Some(finished) = self.finished.pop_front() {
                self.conclude(finished)?;
            } else if let Some(locals) = self.locals() {
                return Ok(Advance::Local(locals));
            } else if let Some(next) = self.pending.pop_front() {
                self.feed(next)?;
            } else {
                break;
            }
        }
        if self.pending.is_empty() {
            // A run may stay in memory for long, and what it has room for with it.
            self.pending.shrink_to_fit();
        }
        let commands = self.shared.lock().script.take();
        self.children.note(&commands);
        Ok(Advance::Commit(Commit { upto: self.consumed, commands, end: self.end.clone() }))
    }

    /// Says how a local activity ended. To be followed by [`advance`](Self::advance).
    pub fn finish_local(&mut self, seq: u64, result: ActivityResult, attempts: u32) {
        self.finished.push_back(Finished { seq, result, attempts });
    }

    /// The local activities that the code waits for, if it does; those that are new.
    fn locals(&self) -> Option<Vec<super::LocalTask>> {
        let mut state = self.shared.lock();
        let waits = state.waits.has_locals();
        waits.then(|| std::mem::take(&mut state.locals))
    }

    /// Tells the code of a local activity's end, one at a time as of events. It may have stopped waiting for it.
    fn conclude(&mut self, finished: Finished) -> Result<(), Halt> {
        let Finished { seq, result, attempts } = finished;
        {
            let mut state = self.shared.lock();
            let Some(On::Local(name)) = state.waits.on(seq) else { return Ok(()) };
            let Ok(name) = name.parse() else { return Ok(()) };
            state.issue(Command::LocalActivity { seq, name, result: result.clone(), attempts });
            state.waits.answer(seq, Outcome::Activity(result));
        }
        self.run()
    }
}
