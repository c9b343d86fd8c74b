//! The code of an activity: an async function of an input and extracted arguments.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::dead_letter::{DeathCause, DeathReason};
use tidemill_core::{Kind, Outcome};
use tidemill_worker::{Extract, Fail, JobContext, MissingState, StateMap};

use crate::definition::Activity;

/// An async function that implements an activity from `I` to `O`. It takes the input and up to four
/// [extracted](Extract) arguments, and returns the output or a [`Fail`] (or any error).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the code of an activity from `{I}` to `{O}`",
    note = "it is `async fn(input: I, …) -> Result<O, Fail>` where each further argument is `State<T>` or `JobContext`"
)]
pub trait ActivityFn<I, O, Args: Extract>: Clone + Send + Sync + 'static {
    /// Runs the function.
    #[doc(hidden)]
    fn invoke(self, input: I, args: Args) -> impl Future<Output = Result<O, Fail>> + Send;
}

macro_rules! activity_fn {
    ($($arg:ident)*) => {
        #[allow(non_snake_case)]
        impl<Function, Running, Failure, I, O, $($arg),*> ActivityFn<I, O, ($($arg,)*)> for Function
        where
            Function: Fn(I, $($arg),*) -> Running + Clone + Send + Sync + 'static,
            Running: Future<Output = Result<O, Failure>> + Send,
            Failure: Into<Fail>,
            I: Send,
            $($arg: Extract,)*
        {
            async fn invoke(self, input: I, ($($arg,)*): ($($arg,)*)) -> Result<O, Fail> {
                self(input, $($arg),*).await.map_err(Into::into)
            }
        }
    };
}

activity_fn!();
activity_fn!(A);
activity_fn!(A B);
activity_fn!(A B C);
activity_fn!(A B C D);

/// One attempt of an activity.
pub(super) type AttemptFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The code of an activity with its types erased. Runs the job of a context.
pub(super) type ActivityCode = Arc<dyn Fn(JobContext) -> AttemptFuture + Send + Sync>;

/// Binds the code to the worker's state, once all of it is registered.
type BindFn = Box<dyn FnOnce(&StateMap) -> Result<ActivityCode, MissingState> + Send>;

/// A registered activity.
pub(super) struct RegisteredActivity {
    pub(super) name: &'static str,
    pub(super) queue: &'static str,
    pub(super) bind: BindFn,
}

impl RegisteredActivity {
    pub(super) fn new<I, O, Args, F>(activity: &Activity<I, O>, function: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        Args: Extract,
        F: ActivityFn<I, O, Args>,
    {
        let bind = move |states: &StateMap| -> Result<ActivityCode, MissingState> {
            let source = Args::find(states)?;
            Ok(Arc::new(move |cx: JobContext| -> AttemptFuture {
                let (function, args) = (function.clone(), Args::extract(&source, &cx));
                Box::pin(async move { run_attempt::<I, O, Args, F>(function, args, &cx).await })
            }))
        };
        Self { name: activity.name(), queue: activity.queue_name(), bind: Box::new(bind) }
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::new(self.name).ok()
    }
}

async fn run_attempt<I, O, Args, F>(
    function: F,
    args: impl Future<Output = Result<Args, Fail>>,
    cx: &JobContext,
) -> Outcome
where
    I: DeserializeOwned,
    O: Serialize,
    Args: Extract,
    F: ActivityFn<I, O, Args>,
{
    let input = match serde_json::from_slice(cx.envelope().payload()) {
        Ok(input) => input,
        Err(error) => return dead(DeathReason::InvalidPayload, &error),
    };
    let args = match args.await {
        Ok(args) => args,
        Err(fail) => return fail.into(),
    };
    match function.invoke(input, args).await.map(|output| serde_json::to_vec(&output)) {
        Ok(Ok(output)) => Outcome::Done(output.into()),
        // The work is done. A retry would produce the same invalid output.
        Ok(Err(error)) => dead(DeathReason::Other("invalid_output".into()), &error),
        Err(fail) => fail.into(),
    }
}

fn dead(reason: DeathReason, error: &serde_json::Error) -> Outcome {
    Outcome::Dead(DeathCause { reason, error: Some(error.to_string()) })
}
