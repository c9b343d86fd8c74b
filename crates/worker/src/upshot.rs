//! What an attempt came to: an outcome that is still to be settled, or a transaction that has settled it.

use tidemill_core::chain::{Completion, IntoCompletion};
use tidemill_core::dead_letter::{DeathCause, DeathReason};
use tidemill_core::store::Verdict;
use tidemill_core::transaction::{Committed, Done, Uncommitted};
use tidemill_core::{Error, Guarantee, Outcome};

use crate::context::JobContext;
use crate::event::Ending;

/// What an attempt came to.
#[derive(Debug)]
pub(crate) enum Upshot {
    /// The store has to be told.
    Outcome(Outcome),
    /// The store knows: the handler's transaction has settled the job, or found the lease lost.
    Settled(Ending, Verdict),
}

impl From<Outcome> for Upshot {
    fn from(outcome: Outcome) -> Self {
        Self::Outcome(outcome)
    }
}

/// What a handler may return for a job whose output is `O`: the output, or [`Done`] with a transaction.
pub trait Returned<O: IntoCompletion>: Send {
    #[doc(hidden)]
    fn conclude(self, kept: bool) -> Conclusion;
}

/// How a handler ended that did not fail.
#[doc(hidden)]
pub enum Conclusion {
    /// It says how the job ends.
    End(Result<Completion, Error>),
    /// It has work that is to be committed with the job's end.
    Work(Box<dyn Uncommitted>),
}

impl<O: IntoCompletion> Returned<O> for O {
    fn conclude(self, kept: bool) -> Conclusion {
        Conclusion::End(self.end(kept))
    }
}

impl<O: IntoCompletion> Returned<O> for Done<O> {
    fn conclude(self, _kept: bool) -> Conclusion {
        Conclusion::Work(self.into_work())
    }
}

impl Conclusion {
    /// Brings it about, as far as that is not left to the completer.
    pub(crate) async fn into_upshot(self, context: &JobContext) -> Upshot {
        match self {
            Self::End(Ok(Completion::Output(output))) => Outcome::Done(output).into(),
            Self::End(Ok(Completion::Continue(next))) => admissible(Outcome::Continue(next), context).into(),
            Self::End(Err(error)) => invalid_output(&error).into(),
            Self::Work(work) => commit(work, context).await,
        }
    }
}

async fn commit(work: Box<dyn Uncommitted>, context: &JobContext) -> Upshot {
    if !context.begin_to_end() {
        // It was cancelled, or its lease is lost: the work is not wanted. Dropping it undoes it.
        return Outcome::HandedBack.into();
    }
    match work.commit(&context.claim()).await {
        Ok(Committed::Yes) => Upshot::Settled(Ending::Done, Verdict::Accepted),
        Ok(Committed::LeaseLost) => Upshot::Settled(Ending::Done, Verdict::LeaseLost),
        Ok(Committed::Failed(outcome)) => outcome.into(),
        Err(error @ Error::Invalid(_)) => invalid_output(&error).into(),
        // It may have taken place; then what this leads to finds the lease gone and has no effect.
        Err(error) => Outcome::Retry { error: error.chain(), after: None }.into(),
    }
}

/// A job that wants to continue, if it can.
pub(crate) fn admissible(outcome: Outcome, context: &JobContext) -> Outcome {
    let Outcome::Continue(next) = &outcome else { return outcome };
    if context.queue().guarantee == Guarantee::AtMostOnce {
        return invalid_output(&Error::Invalid("an at-most-once job cannot continue with another".into()));
    }
    match next.check(context.client().payload_limit()) {
        Ok(()) => outcome,
        Err(error) => invalid_output(&error),
    }
}

/// The work is done; doing it again would not make the output any better.
fn invalid_output(error: &Error) -> Outcome {
    let reason = DeathReason::Other("invalid_output".to_owned());
    Outcome::Dead(DeathCause { reason, error: Some(error.to_string()) })
}
