//! The command log: records commands when live, checks them on replay.

use std::mem;
use std::vec::IntoIter;

use tidemill_core::Kind;
use tidemill_core::workflow::{ActivityResult, Command, Json, Topic};

/// The commands of the current commit.
pub(crate) enum CommandLog {
    /// New commands, for the next commit.
    Live(Vec<Command>),
    /// Commands of a recorded commit, to compare with.
    Replay(ReplayedCommit),
}

/// A commit that is being replayed.
pub(crate) struct ReplayedCommit {
    position: u64,
    /// The number of its commands.
    length: usize,
    expected: IntoIter<Command>,
}

/// The code issued another command than the journal recorded.
pub(crate) struct CommandMismatch {
    pub(crate) position: u64,
    pub(crate) index: usize,
    pub(crate) expected: String,
    pub(crate) got: String,
}

/// The recorded result of a side effect.
pub(crate) enum RecordedValue {
    /// The recorded value.
    Value(Json),
    /// Not recorded: the value must be computed.
    New,
    /// The journal recorded another command here.
    Mismatch(CommandMismatch),
}

impl CommandLog {
    /// Begins the replay of a commit.
    pub(crate) fn replay(position: u64, commands: Vec<Command>) -> Self {
        Self::Replay(ReplayedCommit { position, length: commands.len(), expected: commands.into_iter() })
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// Takes the new commands.
    pub(crate) fn take_new(&mut self) -> Vec<Command> {
        match self {
            Self::Live(issued) => mem::take(issued),
            Self::Replay(_) => Vec::new(),
        }
    }

    pub(crate) fn record(&mut self, command: Command) -> Result<(), CommandMismatch> {
        match self {
            Self::Live(issued) => {
                issued.push(command);
                Ok(())
            }
            Self::Replay(replay) if replay.next().is_some_and(|next| next.is_same_step(&command)) => {
                replay.expected.next();
                Ok(())
            }
            Self::Replay(replay) => Err(replay.mismatch(command.to_string())),
        }
    }

    /// The recorded value of side effect `seq`.
    pub(crate) fn side_effect(&mut self, seq: u64) -> RecordedValue {
        let Self::Replay(replay) = self else { return RecordedValue::New };
        let recorded = replay.next_if(|next| match next {
            Command::SideEffect { seq: found, value } if *found == seq => Some(value.clone()),
            _ => None,
        });
        match recorded {
            Some(value) => RecordedValue::Value(value),
            None => RecordedValue::Mismatch(replay.mismatch(format!("side effect (seq {seq})"))),
        }
    }

    /// The size and the limit, if command `seq` was recorded as too large.
    pub(crate) fn too_large(&mut self, seq: u64) -> Option<(u64, u64)> {
        let Self::Replay(replay) = self else { return None };
        replay.next_if(|next| match next {
            Command::TooLarge { seq: found, size, limit, .. } if *found == seq => Some((*size, *limit)),
            _ => None,
        })
    }

    /// Whether the code took the new path of `patch` here. `None` if it is not recorded yet.
    pub(crate) fn patch_taken(&mut self, patch: &Topic) -> Option<bool> {
        let Self::Replay(replay) = self else { return None };
        let taken = replay.next_if(|next| matches!(next, Command::Patch { id } if id == patch).then_some(()));
        Some(taken.is_some())
    }

    /// The result of a local activity, if that is recorded next and the code waits for it.
    pub(crate) fn next_local_result(
        &mut self,
        is_awaited: impl Fn(u64, &Kind) -> bool,
    ) -> Option<(u64, ActivityResult)> {
        let Self::Replay(replay) = self else { return None };
        replay.next_if(|next| match next {
            Command::LocalActivity { seq, name, result, .. } if is_awaited(*seq, name) => {
                Some((*seq, result.clone()))
            }
            _ => None,
        })
    }

    /// The first recorded command that the code did not issue.
    pub(crate) fn unissued(&self, got: String) -> Option<CommandMismatch> {
        match self {
            Self::Replay(replay) if replay.next().is_some() => Some(replay.mismatch(got)),
            _ => None,
        }
    }

    /// The difference between the next recorded command and `got`.
    pub(crate) fn mismatch(&self, got: String) -> Option<CommandMismatch> {
        match self {
            Self::Replay(replay) => Some(replay.mismatch(got)),
            Self::Live(_) => None,
        }
    }
}

impl ReplayedCommit {
    fn next(&self) -> Option<&Command> {
        self.expected.as_slice().first()
    }

    fn next_if<T>(&mut self, extract: impl Fn(&Command) -> Option<T>) -> Option<T> {
        let found = self.next().and_then(extract);
        if found.is_some() {
            self.expected.next();
        }
        found
    }

    fn mismatch(&self, got: String) -> CommandMismatch {
        let expected = self.next().map_or_else(|| "nothing more".to_owned(), Command::to_string);
        let index = self.length - self.expected.len() + 1;
        CommandMismatch { position: self.position, index, expected, got }
    }
}
