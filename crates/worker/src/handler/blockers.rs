//! The results of the chains that a job waited for.

use serde::de::DeserializeOwned;
use tidemill_core::chain::Blocker;
use tidemill_core::job::JobState;

use crate::handler::fail::Fail;

/// The results of the chains that a job waited for, in the order in which the job named them.
#[derive(Debug, Clone)]
pub struct Blockers(pub(crate) Vec<Blocker>);

impl Blockers {
    /// The output of the blocker at `index`.
    ///
    /// # Errors
    /// A cancelled chain has no output, and no later attempt would find one: the returned [`Fail`]
    /// moves the job to the dead letters. Handlers that work without an output use
    /// [`iter`](Self::iter).
    pub fn output<O: DeserializeOwned>(&self, index: usize) -> Result<O, Fail> {
        let Some(blocker) = self.0.get(index) else {
            let count = self.0.len();
            return Err(Fail::dead(
                "no_such_blocker",
                format!("there are {count} blockers, no number {index}"),
            ));
        };
        output(blocker)
    }

    /// The outputs of all blockers, for blockers with one output type.
    ///
    /// # Errors
    /// As for [`output`](Self::output).
    pub fn outputs<O: DeserializeOwned>(&self) -> Result<Vec<O>, Fail> {
        self.0.iter().map(output).collect()
    }

    /// All blockers with their final states.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Blocker> {
        self.0.iter()
    }
}

fn output<O: DeserializeOwned>(blocker: &Blocker) -> Result<O, Fail> {
    let chain = &blocker.chain;
    if blocker.state != JobState::Done {
        return Err(Fail::dead("blocker_cancelled", format!("chain {chain} was cancelled")));
    }
    let invalid = |error| {
        Fail::dead("blocker_output", format!("the output of chain {chain} does not fit its type: {error}"))
    };
    serde_json::from_str(blocker.output.get()).map_err(invalid)
}
