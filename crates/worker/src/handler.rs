//! From an async function to something that runs an envelope.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use tidemill_core::dead_letter::{DeathCause, DeathReason};
use tidemill_core::{Envelope, Job, Outcome};

use crate::context::JobContext;
use crate::extract::Extract;
use crate::fail::Fail;
use crate::upshot::{Conclusion, Returned, Upshot, admissible};

/// One attempt, under way.
pub(crate) type Attempt = Pin<Box<dyn Future<Output = Upshot> + Send>>;

/// Runs jobs of one kind.
pub(crate) trait Handler: Send + Sync {
    /// Prepares an attempt. Nothing of the user's runs before its first poll, where a panic is caught.
    fn call(&self, context: JobContext) -> Attempt;
}

/// An async function that can handle jobs of type `J`: it takes the job, then up to four arguments that can be
/// [extracted](Extract), and returns the job's output, or [`Done`](tidemill_core::transaction::Done) with a
/// transaction, or a [`Fail`] (or any error).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job handler",
    note = "a handler is `async fn(job: J, …) -> Result<J::Output, Fail>` where `J: Job` and each further \
            argument is `State<T>`, `JobContext` or another `Extract`"
)]
pub trait HandlerFn<J: Job, Args: Extract>: Clone + Send + Sync + 'static {
    /// Runs the function.
    #[doc(hidden)]
    fn invoke(self, job: J, args: Args, kept: bool) -> impl Future<Output = Result<Conclusion, Fail>> + Send;
}

macro_rules! handler_fn {
    ($($arg:ident)*) => {
        #[allow(non_snake_case)]
        impl<Function, Running, Value, Failure, J, $($arg),*> HandlerFn<J, ($($arg,)*)> for Function
        where
            Function: Fn(J, $($arg),*) -> Running + Clone + Send + Sync + 'static,
            Running: Future<Output = Result<Value, Failure>> + Send,
            Value: Returned<J::Output>,
            Failure: Into<Fail>,
            J: Job,
            $($arg: Extract,)*
        {
            async fn invoke(
                self,
                job: J,
                ($($arg,)*): ($($arg,)*),
                kept: bool,
            ) -> Result<Conclusion, Fail> {
                let running = self(job, $($arg),*);
                running.await.map(|value| value.conclude(kept)).map_err(Into::into)
            }
        }
    };
}

handler_fn!();
handler_fn!(A);
handler_fn!(A B);
handler_fn!(A B C);
handler_fn!(A B C D);

/// A handler whose payload has a type.
pub(crate) struct Typed<J, Args: Extract, F> {
    function: F,
    source: Args::Source,
    job: PhantomData<fn(J)>,
}

impl<J: Job, Args: Extract, F: HandlerFn<J, Args>> Typed<J, Args, F> {
    pub(crate) fn new(function: F, source: Args::Source) -> Self {
        Self { function, source, job: PhantomData }
    }
}

impl<J: Job, Args: Extract, F: HandlerFn<J, Args>> Handler for Typed<J, Args, F> {
    fn call(&self, context: JobContext) -> Attempt {
        let function = self.function.clone();
        let args = Args::extract(&self.source, &context);
        Box::pin(async move {
            let job = match serde_json::from_slice(context.envelope().payload()) {
                Ok(job) => job,
                Err(error) => return Outcome::Dead(misfit(&error)).into(),
            };
            let kept = context.envelope().keep_result().is_some();
            let args = match args.await {
                Ok(args) => args,
                Err(fail) => return Outcome::from(fail).into(),
            };
            match function.invoke(job, args, kept).await {
                Ok(conclusion) => conclusion.into_upshot(&context).await,
                Err(fail) => Outcome::from(fail).into(),
            }
        })
    }
}

fn misfit(error: &serde_json::Error) -> DeathCause {
    DeathCause { reason: DeathReason::InvalidPayload, error: Some(error.to_string()) }
}

/// A handler that takes envelopes as they are.
pub(crate) struct Untyped<F>(pub(crate) F);

impl<F, Running> Handler for Untyped<F>
where
    F: Fn(Envelope, JobContext) -> Running + Clone + Send + Sync + 'static,
    Running: Future<Output = Outcome> + Send + 'static,
{
    fn call(&self, context: JobContext) -> Attempt {
        let function = self.0.clone();
        Box::pin(async move {
            let outcome = function(context.envelope().clone(), context.clone()).await;
            admissible(outcome, &context).into()
        })
    }
}
