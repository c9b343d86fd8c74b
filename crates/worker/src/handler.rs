//! From an async function to something that runs an envelope.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use bytes::Bytes;
use tidemill_core::dead::{Cause, Reason};
use tidemill_core::{Envelope, Job, Outcome};

use crate::context::JobContext;
use crate::extract::Extract;
use crate::fail::Fail;

/// One attempt, under way.
pub(crate) type Attempt = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Runs jobs of one kind.
pub(crate) trait Handler: Send + Sync {
    /// Prepares an attempt. Nothing of the user's runs before its first poll, where a panic is caught.
    fn call(&self, context: JobContext) -> Attempt;
}

/// An async function that can handle jobs of type `J`: it takes the job, then up to four arguments that can be
/// [extracted](Extract), and returns the job's output or a [`Fail`] (or any error).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job handler",
    note = "a handler is `async fn(job: J, …) -> Result<J::Output, Fail>` where `J: Job` and each further \
            argument is `State<T>` or `JobContext`"
)]
pub trait HandlerFn<J: Job, Args: Extract>: Clone + Send + Sync + 'static {
    /// Runs the function.
    fn invoke(self, job: J, args: Args) -> impl Future<Output = Result<J::Output, Fail>> + Send;
}

macro_rules! handler_fn {
    ($($arg:ident)*) => {
        #[allow(non_snake_case)]
        impl<Function, Running, Failure, J, $($arg),*> HandlerFn<J, ($($arg,)*)> for Function
        where
            Function: Fn(J, $($arg),*) -> Running + Clone + Send + Sync + 'static,
            Running: Future<Output = Result<J::Output, Failure>> + Send,
            Failure: Into<Fail>,
            J: Job,
            $($arg: Extract,)*
        {
            async fn invoke(self, job: J, ($($arg,)*): ($($arg,)*)) -> Result<J::Output, Fail> {
                self(job, $($arg),*).await.map_err(Into::into)
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
                Err(error) => return Outcome::Dead(misfit(&error)),
            };
            match function.invoke(job, args).await {
                Ok(output) => done::<J>(context.envelope(), &output),
                Err(fail) => fail.into(),
            }
        })
    }
}

fn misfit(error: &serde_json::Error) -> Cause {
    Cause { reason: Reason::InvalidPayload, error: Some(error.to_string()) }
}

fn done<J: Job>(envelope: &Envelope, output: &J::Output) -> Outcome {
    // Nobody will ask for it: do not pay for writing it down.
    if envelope.keep_result().is_none() {
        return Outcome::Done(Bytes::new());
    }
    match serde_json::to_vec(output) {
        Ok(json) => Outcome::Done(json.into()),
        // The work is done; doing it again would not make the output any better.
        Err(error) => {
            let reason = Reason::Other("invalid_output".to_owned());
            Outcome::Dead(Cause { reason, error: Some(error.to_string()) })
        }
    }
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
        Box::pin(async move { function(context.envelope().clone(), context).await })
    }
}
