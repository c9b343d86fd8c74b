//! Handlers: async functions as trait objects that run an envelope, and the conversion of their
//! return values into the result of an attempt.

pub(crate) mod blockers;
pub(crate) mod context;
pub(crate) mod extract;
pub(crate) mod fail;
pub(crate) mod registry;

use std::future::{Future, ready};
use std::marker::PhantomData;
use std::pin::Pin;

use tidemill_core::chain::{Completion, IntoCompletion};
use tidemill_core::dead_letter::{DeathCause, DeathReason};
use tidemill_core::transaction::{Done, Uncommitted};
use tidemill_core::{Envelope, Error, Guarantee, Job, Outcome};

use self::context::JobContext;
use self::extract::Extract;
use self::fail::Fail;

/// A running attempt.
pub(crate) type AttemptFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Runs jobs of one kind.
pub(crate) trait Handler: Send + Sync {
    /// Prepares an attempt. No user code runs before the first poll, where panics are caught.
    fn call(&self, context: JobContext) -> AttemptFuture;
}

/// An async function that handles jobs of type `J`. It takes the job, then up to four arguments
/// that can be [extracted](Extract). It returns the job's output, or
/// [`Done`](tidemill_core::transaction::Done) with a transaction, or a [`Fail`] (or any error).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job handler",
    note = "a handler is `async fn(job: J, …) -> Result<J::Output, Fail>` where `J: Job` and each further \
            argument is `State<T>`, `JobContext` or another `Extract`",
    note = "its future must be `Send`: an `Rc`, a `RefCell` borrow or a `MutexGuard` of std must not be held \
            across an `.await`"
)]
pub trait HandlerFn<J: Job, Args: Extract>: Clone + Send + Sync + 'static {
    /// Calls the function.
    #[doc(hidden)]
    fn invoke(self, job: J, args: Args, context: &JobContext) -> impl Future<Output = Outcome> + Send;
}

macro_rules! handler_fn {
    ($($arg:ident)*) => {
        #[allow(non_snake_case)]
        impl<Function, Running, Value, Failure, J, $($arg),*> HandlerFn<J, ($($arg,)*)> for Function
        where
            Function: Fn(J, $($arg),*) -> Running + Clone + Send + Sync + 'static,
            Running: Future<Output = Result<Value, Failure>> + Send,
            Value: IntoOutcome<J::Output>,
            Failure: Into<Fail>,
            J: Job,
            $($arg: Extract,)*
        {
            async fn invoke(self, job: J, ($($arg,)*): ($($arg,)*), context: &JobContext) -> Outcome {
                let value = match self(job, $($arg),*).await {
                    Ok(value) => value,
                    Err(failure) => return Outcome::from(failure.into()),
                };
                value.into_outcome(context).await
            }
        }
    };
}

handler_fn!();
handler_fn!(A);
handler_fn!(A B);
handler_fn!(A B C);
handler_fn!(A B C D);

/// A handler with a typed payload.
pub(crate) struct TypedHandler<J, Args: Extract, F> {
    function: F,
    source: Args::Source,
    job: PhantomData<fn(J)>,
}

impl<J: Job, Args: Extract, F: HandlerFn<J, Args>> TypedHandler<J, Args, F> {
    pub(crate) fn new(function: F, source: Args::Source) -> Self {
        Self { function, source, job: PhantomData }
    }
}

impl<J: Job, Args: Extract, F: HandlerFn<J, Args>> Handler for TypedHandler<J, Args, F> {
    fn call(&self, context: JobContext) -> AttemptFuture {
        let function = self.function.clone();
        let args = Args::extract(&self.source, &context);
        Box::pin(async move {
            let job = match serde_json::from_slice(context.envelope().payload()) {
                Ok(job) => job,
                Err(error) => return Outcome::Dead(invalid_payload(&error)),
            };
            match args.await {
                Ok(args) => function.invoke(job, args, &context).await,
                Err(fail) => Outcome::from(fail),
            }
        })
    }
}

fn invalid_payload(error: &serde_json::Error) -> DeathCause {
    DeathCause { reason: DeathReason::InvalidPayload, error: Some(error.to_string()) }
}

/// A handler that takes envelopes unparsed.
pub(crate) struct UntypedHandler<F>(pub(crate) F);

impl<F, Running> Handler for UntypedHandler<F>
where
    F: Fn(Envelope, JobContext) -> Running + Clone + Send + Sync + 'static,
    Running: Future<Output = Outcome> + Send + 'static,
{
    fn call(&self, context: JobContext) -> AttemptFuture {
        let function = self.0.clone();
        Box::pin(async move {
            match function(context.envelope().clone(), context.clone()).await {
                Outcome::Settled(_) => {
                    let error = "only a transaction of the store settles a job itself".to_owned();
                    Outcome::Retry { error, after: None }
                }
                outcome => check_continuation(outcome, &context),
            }
        })
    }
}

/// A value that a handler may return for a job with output `O`: the output itself, or [`Done`] with
/// a transaction.
#[diagnostic::on_unimplemented(
    message = "a handler of this job cannot return `{Self}`",
    note = "it returns `Result<{O}, Fail>`, or `Result<Done<{O}>, Fail>` with a transaction"
)]
pub trait IntoOutcome<O: IntoCompletion>: Send {
    #[doc(hidden)]
    fn into_outcome(self, context: &JobContext) -> impl Future<Output = Outcome> + Send;
}

impl<O: IntoCompletion> IntoOutcome<O> for O {
    fn into_outcome(self, context: &JobContext) -> impl Future<Output = Outcome> + Send {
        let completion = self.into_completion(context.envelope().keep_result().is_some());
        ready(completed(completion, context))
    }
}

impl<O: IntoCompletion> IntoOutcome<O> for Done<O> {
    fn into_outcome(self, context: &JobContext) -> impl Future<Output = Outcome> + Send {
        commit(self.into_work(), context)
    }
}

fn completed(completion: Result<Completion, Error>, context: &JobContext) -> Outcome {
    match completion {
        Ok(Completion::Output(output)) => Outcome::Done(output),
        Ok(Completion::Continue(next)) => check_continuation(Outcome::Continue(next), context),
        Err(error) => invalid_output(&error),
    }
}

/// Ends the job in the handler's transaction.
async fn commit(work: Box<dyn Uncommitted>, context: &JobContext) -> Outcome {
    if !context.try_begin_settlement() {
        // The job was cancelled, or its lease is lost. Dropping the transaction rolls it back.
        return Outcome::HandedBack;
    }
    match work.commit(&context.transaction_claim()).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_invalid() => invalid_output(&error),
        // The commit may have taken effect. Then the retry finds the lease gone and has no effect.
        Err(error) => Outcome::Retry { error: error.full_message(), after: None },
    }
}

/// Replaces a continuation that cannot be enqueued by the job's death.
pub(crate) fn check_continuation(outcome: Outcome, context: &JobContext) -> Outcome {
    let Outcome::Continue(next) = &outcome else { return outcome };
    if context.queue().guarantee == Guarantee::AtMostOnce {
        return invalid_output(&Error::Invalid("an at-most-once job cannot continue with another".into()));
    }
    match next.check(context.client().payload_limit()) {
        Ok(()) => outcome,
        Err(error) => invalid_output(&error),
    }
}

/// The work is done, and another attempt would produce the same output.
fn invalid_output(error: &Error) -> Outcome {
    let reason = DeathReason::Other("invalid_output".to_owned());
    Outcome::Dead(DeathCause { reason, error: Some(error.to_string()) })
}
