//! `replay`: repeats the commits of a journal and checks that the code still agrees with them.

use std::mem::discriminant;

use tidemill_core::workflow::{Commit, Entry, EntryContent, PositionedEvent, RunEnd};

use super::Replayer;
use crate::blocked::Blocked;
use crate::state::{CommandLog, CommandMismatch, WaitResult, WaitTarget};

impl Replayer {
    /// Replays entries from the journal's beginning, or from where the last call ended. Repeats
    /// every commit and compares the code's commands with the recorded ones. Keeps the events after
    /// the last commit for [`advance`](Self::advance).
    pub fn replay(&mut self, entries: impl IntoIterator<Item = Entry>) -> Result<(), Blocked> {
        self.unless_blocked(|replayer| entries.into_iter().try_for_each(|entry| replayer.replay_entry(entry)))
    }

    /// Discards pending events after a position. No commit has consumed any of them.
    pub(crate) fn discard_after(&mut self, beyond: u64) {
        while self.pending.back().is_some_and(|event| event.position > beyond) {
            self.pending.pop_back();
        }
    }

    fn replay_entry(&mut self, entry: Entry) -> Result<(), Blocked> {
        self.last_read += 1;
        let position = self.last_read;
        match entry.content {
            EntryContent::Event(event) => {
                self.pending.push_back(PositionedEvent { position, at: entry.at, event })
            }
            EntryContent::Commit(commit) => self.replay_commit(position, commit)?,
        }
        Ok(())
    }

    /// Repeats a commit.
    fn replay_commit(&mut self, position: u64, commit: Commit) -> Result<(), Blocked> {
        let Commit { upto, commands, end, awaits: _ } = commit;
        if self.end.is_some() {
            return Err(Blocked::Damaged { position, message: "the run has ended before".into() });
        }
        // Taken from the journal: in a reset run, older children keep the ids of the original run.
        self.children.add_commands(&commands);
        self.shared.lock().commands = CommandLog::replay(position, commands);
        while self.end.is_none()
            && self.pending.front().is_some_and(|next| next.position <= upto)
            && let Some(next) = self.pending.pop_front()
        {
            self.apply(next)?;
            self.replay_locals()?;
        }
        self.check_commit_end(upto, end.as_ref())?;
        if self.consumed != upto {
            let message = format!("it consumed up to entry {upto}, which is no event before it");
            return Err(Blocked::Damaged { position, message });
        }
        let mut state = self.shared.lock();
        (state.commands, state.unselected_children) = (CommandLog::Live(Vec::new()), Vec::new());
        Ok(())
    }

    /// Passes the recorded results of local activities to the code.
    fn replay_locals(&mut self) -> Result<(), Blocked> {
        while self.replay_next_local() {
            self.poll_ready()?;
        }
        let mut state = self.shared.lock();
        if state.waits.has_locals()
            && let Some((seq, target)) =
                state.waits.open_matching(|wait| matches!(wait.target, WaitTarget::LocalActivity(_))).first()
            && let Some(mismatch) = state.commands.mismatch(format!("{target} (seq {seq})"))
        {
            state.block_diverged(mismatch);
        }
        drop(state);
        super::executor::check_blocked(&self.shared)
    }

    fn replay_next_local(&mut self) -> bool {
        let mut state = self.shared.lock();
        let state = &mut *state;
        let waits = &state.waits;
        let next = state.commands.next_local_result(|seq, name| {
            matches!(waits.target(seq), Some(WaitTarget::LocalActivity(awaited)) if awaited == name.as_str())
                && waits.is_open(seq)
        });
        let Some((seq, result)) = next else { return false };
        state.waits.complete(seq, WaitResult::Activity(result));
        true
    }

    /// Checks at the end of a commit that the code issued every recorded command and ended if the
    /// run did.
    fn check_commit_end(&mut self, upto: u64, expected: Option<&RunEnd>) -> Result<(), Blocked> {
        let agrees = match (expected, &self.end) {
            (None, None) => true,
            (Some(expected), Some(end)) => {
                discriminant(expected) == discriminant(end) && self.consumed == upto
            }
            _ => false,
        };
        let got = self.describe_position();
        let mut state = self.shared.lock();
        if let Some(mismatch) = state.commands.unissued(got.clone()) {
            state.block_diverged(mismatch);
        } else if !agrees && let Some(mismatch) = state.commands.mismatch(got) {
            let expected = match expected {
                Some(end) => format!("the run ended with entry {upto}: {end}"),
                None => "the run goes on".to_owned(),
            };
            state.block_diverged(CommandMismatch { expected, ..mismatch });
        }
        drop(state);
        super::executor::check_blocked(&self.shared)
    }

    /// Describes where the code is.
    fn describe_position(&self) -> String {
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
