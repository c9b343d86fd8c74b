//! What the code asks for: new, or once more.

use std::mem;
use std::vec::IntoIter;

use tidemill_core::Kind;
use tidemill_core::workflow::{ActivityResult, Command, Json, Topic};

/// Where commands go.
pub(crate) enum Script {
    /// Into the next commit.
    Live(Vec<Command>),
    /// Against those of a commit in the journal.
    Replay(Replay),
}

/// A commit that is being replayed.
pub(crate) struct Replay {
    position: u64,
    /// How many commands the commit has.
    length: usize,
    expected: IntoIter<Command>,
}

/// The code asked for something else than before.
pub(crate) struct Mismatch {
    pub(crate) position: u64,
    pub(crate) index: usize,
    pub(crate) expected: String,
    pub(crate) got: String,
}

/// A value the code computed once.
pub(crate) enum Recorded {
    /// It was computed before.
    Value(Json),
    /// It has to be computed now.
    New,
    /// The journal has something else here.
    Other(Mismatch),
}

impl Script {
    /// Starts the replay of a commit.
    pub(crate) fn replay(position: u64, commands: Vec<Command>) -> Self {
        Self::Replay(Replay { position, length: commands.len(), expected: commands.into_iter() })
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// The commands since this was last asked.
    pub(crate) fn take(&mut self) -> Vec<Command> {
        match self {
            Self::Live(issued) => mem::take(issued),
            Self::Replay(_) => Vec::new(),
        }
    }

    pub(crate) fn issue(&mut self, command: Command) -> Result<(), Mismatch> {
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

    /// The value of side effect `seq`.
    pub(crate) fn side_effect(&mut self, seq: u64) -> Recorded {
        let Self::Replay(replay) = self else { return Recorded::New };
        let recorded = replay.next_if(|next| match next {
            Command::SideEffect { seq: found, value } if *found == seq => Some(value.clone()),
            _ => None,
        });
        match recorded {
            Some(value) => Recorded::Value(value),
            None => Recorded::Other(replay.mismatch(format!("side effect (seq {seq})"))),
        }
    }

    /// What was found to be too large when the code asked for `seq` before: its size, and the most it could have been.
    pub(crate) fn too_large(&mut self, seq: u64) -> Option<(u64, u64)> {
        let Self::Replay(replay) = self else { return None };
        replay.next_if(|next| match next {
            Command::TooLarge { seq: found, size, limit, .. } if *found == seq => Some((*size, *limit)),
            _ => None,
        })
    }

    /// Whether the code took the new way of `patch` here; `None` if that is for it to say.
    pub(crate) fn patch(&mut self, patch: &Topic) -> Option<bool> {
        let Self::Replay(replay) = self else { return None };
        let taken = replay.next_if(|next| matches!(next, Command::Patch { id } if id == patch).then_some(()));
        Some(taken.is_some())
    }

    /// A local activity that ended, if that comes next and the code waits for it.
    pub(crate) fn local(&mut self, awaited: impl Fn(u64, &Kind) -> bool) -> Option<(u64, ActivityResult)> {
        let Self::Replay(replay) = self else { return None };
        replay.next_if(|next| match next {
            Command::LocalActivity { seq, name, result, .. } if awaited(*seq, name) => {
                Some((*seq, result.clone()))
            }
            _ => None,
        })
    }

    /// What the journal has and the code did not ask for.
    pub(crate) fn remainder(&self, got: String) -> Option<Mismatch> {
        match self {
            Self::Replay(replay) if replay.next().is_some() => Some(replay.mismatch(got)),
            _ => None,
        }
    }

    /// The code disagrees with the next of what the journal has.
    pub(crate) fn disagree(&self, got: String) -> Option<Mismatch> {
        match self {
            Self::Replay(replay) => Some(replay.mismatch(got)),
            Self::Live(_) => None,
        }
    }
}

impl Replay {
    fn next(&self) -> Option<&Command> {
        self.expected.as_slice().first()
    }

    fn next_if<T>(&mut self, wanted: impl Fn(&Command) -> Option<T>) -> Option<T> {
        let found = self.next().and_then(wanted);
        if found.is_some() {
            self.expected.next();
        }
        found
    }

    fn mismatch(&self, got: String) -> Mismatch {
        let expected = self.next().map_or_else(|| "nothing more".to_owned(), Command::to_string);
        let index = self.length - self.expected.len() + 1;
        Mismatch { position: self.position, index, expected, got }
    }
}
