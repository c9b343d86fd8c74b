//! Replay: bringing the code to where the journal ends, and noticing if it goes elsewhere.

use std::mem::discriminant;

use tidemill_core::workflow::{Commit, Entry, EntryContent, PositionedEvent, RunEnd};

use super::Machine;
use crate::halt::Halt;
use crate::state::{On, Outcome, Script};

impl Machine {
    /// Reads the journal from its beginning, or on from where this was last called. Every commit is done again, and
    /// what the code asks for is compared with what it asked for then. Events beyond the last commit are kept for
    /// [`advance`](Self::advance).
    pub fn replay(&mut self, entries: impl IntoIterator<Item = Entry>) -> Result<(), Halt> {
        self.unless_halted(|machine| entries.into_iter().try_for_each(|entry| machine.read(entry)))
    }

    /// Leaves events beyond a position for later, as if they had not been read: commits have consumed none of them.
    pub(crate) fn leave(&mut self, beyond: u64) {
        while self.pending.back().is_some_and(|event| event.position > beyond) {
            self.pending.pop_back();
        }
    }

    fn read(&mut self, entry: Entry) -> Result<(), Halt> {
        self.read += 1;
        let position = self.read;
        match entry.what {
            EntryContent::Event(event) => {
                self.pending.push_back(PositionedEvent { position, at: entry.at, event })
            }
            EntryContent::Commit(commit) => self.repeat(position, commit)?,
        }
        Ok(())
    }

    /// Does a commit again.
    fn repeat(&mut self, position: u64, commit: Commit) -> Result<(), Halt> {
        let Commit { upto, commands, end } = commit;
        if self.end.is_some() {
            return Err(Halt::Damaged { position, message: "the run has ended before".into() });
        }
        // As the journal has them: in a run that began where another was they are that one's.
        self.children.note(&commands);
        self.shared.lock().script = Script::replay(position, commands);
        while self.end.is_none()
            && self.pending.front().is_some_and(|next| next.position <= upto)
            && let Some(next) = self.pending.pop_front()
        {
            self.feed(next)?;
            self.repeat_locals()?;
        }
        self.compare(upto, end.as_ref())?;
        if self.consumed != upto {
            let message = format!("it consumed up to entry {upto}, which is no event before it");
            return Err(Halt::Damaged { position, message });
        }
        let mut state = self.shared.lock();
        (state.script, state.losers) = (Script::Live(Vec::new()), Vec::new());
        Ok(())
    }

    /// Tells the code how local activities ended, when they did.
    fn repeat_locals(&mut self) -> Result<(), Halt> {
        while self.repeat_local() {
            self.run()?;
        }
        let mut state = self.shared.lock();
        if state.waits.has_locals()
            && let Some((seq, on)) = state.waits.select(|wait| matches!(wait.on, On::Local(_))).first()
            && let Some(other) = state.script.disagree(format!("{on} (seq {seq})"))
        {
            state.diverge(other.position, other.index, other.expected, other.got);
        }
        drop(state);
        super::executor::halted(&self.shared)
    }

    fn repeat_local(&mut self) -> bool {
        let mut state = self.shared.lock();
        let state = &mut *state;
        let waits = &state.waits;
        let next = state.script.local(|seq, name| {
            matches!(waits.on(seq), Some(On::Local(awaited)) if awaited == name.as_str())
                && waits.is_open(seq)
        });
        let Some((seq, result)) = next else { return false };
        state.waits.answer(seq, Outcome::Activity(result));
        true
    }

    /// At the end of a commit the code must have asked for all that it asked for then, and have ended if it did.
    fn compare(&mut self, upto: u64, expected: Option<&RunEnd>) -> Result<(), Halt> {
        let agrees = match (expected, &self.end) {
            (None, None) => true,
            (Some(expected), Some(end)) => {
                discriminant(expected) == discriminant(end) && self.consumed == upto
            }
            _ => false,
        };
        let got = self.standing();
        let mut state = self.shared.lock();
        if let Some(other) = state.script.remainder(got.clone()) {
            state.diverge(other.position, other.index, other.expected, other.got);
        } else if !agrees && let Some(other) = state.script.disagree(got) {
            let expected = match expected {
                Some(end) => format!("the run ended with entry {upto}: {end}"),
                None => "the run goes on".to_owned(),
            };
            state.diverge(other.position, other.index, expected, other.got);
        }
        drop(state);
        super::executor::halted(&self.shared)
    }

    /// Where the code is, in words.
    fn standing(&self) -> String {
        if let Some(end) = &self.end {
            return format!("the run ended with entry {}: {end}", self.consumed);
        }
        let waits: Vec<_> = self.waits().into_iter().take(3).map(|wait| wait.what).collect();
        format!(
            "the run waits for {}",
            if waits.is_empty() { "nothing".to_owned() } else { waits.join(", ") }
        )
    }
}
