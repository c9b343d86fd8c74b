//! Futures that wait for several others: `join!` for a few of different types, [`JoinAll`] for many
//! of one type.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::state::{PollSource, SharedState};

/// Waits for all of several futures and returns their outputs as a tuple.
///
/// ```
/// # use tidemill_workflow::{Activity, Ctx, WorkflowError, join};
/// # const PRICE: Activity<String, u64> = Activity::new("price");
/// # async fn total(ctx: Ctx, (a, b): (String, String)) -> Result<u64, WorkflowError> {
/// let (a, b) = join!(ctx.activity(&PRICE, a), ctx.activity(&PRICE, b));
/// Ok(a? + b?)
/// # }
/// ```
#[macro_export]
macro_rules! join {
    ($($futures:tt)+) => { $crate::__join!(@collect [] $($futures)+) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __join {
    (@collect [$($done:tt)*] $future:expr, $($rest:tt)*) => {
        $crate::__join!(@collect [$($done)* (future, $future)] $($rest)*)
    };
    (@collect [$($done:tt)*] $future:expr) => {
        $crate::__join!(@collect [$($done)* (future, $future)])
    };
    (@collect [$(($name:ident, $future:expr))+]) => {{
        $(let mut $name = ::core::pin::pin!($crate::__private::maybe_done(
            ::core::future::IntoFuture::into_future($future),
        ));)+
        ::core::future::poll_fn(|cx| {
            let mut all = true;
            $(all &= ::core::future::Future::poll($name.as_mut(), cx).is_ready();)+
            if all { ::core::task::Poll::Ready(()) } else { ::core::task::Poll::Pending }
        })
        .await;
        ($(match $name.as_mut().take_output() {
            Some(output) => output,
            None => unreachable!("every future is complete"),
        },)+)
    }};
}

/// Waits for many futures and polls only the branches that were woken. Created by
/// [`Ctx::join_all`](crate::Ctx::join_all).
#[must_use = "futures do nothing unless they are awaited"]
pub struct JoinAll<F: Future> {
    branches: Vec<Branch<F>>,
    running: usize,
    /// The join's number in the ready queue, from the first poll on.
    join: Option<u32>,
    shared: Arc<SharedState>,
}

enum Branch<F: Future> {
    Running(Pin<Box<F>>),
    Done(F::Output),
}

/// Branches are boxed and their outputs are never pinned.
impl<F: Future> Unpin for JoinAll<F> {}

impl<F: Future> fmt::Debug for JoinAll<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinAll").field("running", &self.running).finish_non_exhaustive()
    }
}

impl<F: Future> JoinAll<F> {
    pub(crate) fn new(shared: Arc<SharedState>, futures: impl IntoIterator<Item = F>) -> Self {
        let branches: Vec<_> = futures.into_iter().map(|future| Branch::Running(Box::pin(future))).collect();
        Self { running: branches.len(), branches, join: None, shared }
    }

    /// Takes the branches to poll now. On the first poll these are all of them.
    fn take_ready(&mut self) -> (u32, Vec<u32>) {
        let mut state = self.shared.lock();
        match self.join {
            Some(join) => (join, state.waits.ready.take_ready_branches(join)),
            None => {
                let join = *self.join.insert(state.waits.ready.add_join());
                (join, (0..u32::try_from(self.branches.len()).unwrap_or(u32::MAX)).collect())
            }
        }
    }

    fn poll_branch(&mut self, join: u32, index: u32, cx: &mut Context<'_>) {
        let Some(branch) = self.branches.get_mut(index as usize) else { return };
        let Branch::Running(future) = branch else { return };
        let back = self.shared.lock().waits.ready.enter(PollSource::Branch { join, index });
        let polled = future.as_mut().poll(cx);
        self.shared.lock().waits.ready.enter(back);
        if let Poll::Ready(output) = polled {
            *branch = Branch::Done(output);
            self.running -= 1;
        }
    }
}

impl<F: Future> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (join, ready) = self.take_ready();
        for index in ready {
            self.poll_branch(join, index, cx);
        }
        if self.running > 0 {
            return Poll::Pending;
        }
        let outputs = std::mem::take(&mut self.branches).into_iter().filter_map(|branch| match branch {
            Branch::Done(output) => Some(output),
            Branch::Running(_) => None,
        });
        Poll::Ready(outputs.collect())
    }
}

impl<F: Future> Drop for JoinAll<F> {
    fn drop(&mut self) {
        if let Some(join) = self.join {
            self.shared.lock().waits.ready.remove_join(join);
        }
    }
}
