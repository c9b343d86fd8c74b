//! `select!`: the first of several futures to complete, in the order in which they are written.

use std::cell::Cell;

thread_local! {
    /// How many selects are dropping their losers on this thread.
    static LOSING: Cell<u32> = const { Cell::new(0) };
}

/// Whether what is dropped now has lost a `select!`: nobody wants it any more, unlike what is dropped because the code
/// has returned.
pub(crate) fn is_losing() -> bool {
    LOSING.get() > 0
}

/// Declared before the futures of a `select!`, and so dropped after them.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Losers {
    dropping: bool,
}

impl Losers {
    /// From here on losers are dropped, on this thread: nothing is awaited until they are.
    pub fn drop_from_here(&mut self) {
        if !std::mem::replace(&mut self.dropping, true) {
            LOSING.set(LOSING.get() + 1);
        }
    }
}

impl Drop for Losers {
    fn drop(&mut self) {
        if self.dropping {
            LOSING.set(LOSING.get() - 1);
        }
    }
}

/// The first of several outputs, or one of the rest.
#[doc(hidden)]
#[derive(Debug)]
pub enum Either<A, B> {
    First(A),
    Rest(B),
}

/// Waits for the first of several futures to complete and runs its branch. The others are dropped before, which
/// cancels the activities, timers and children they wait for.
///
/// Biased: when several are complete, the one that is written first wins. Chance would not fall the same way in a
/// replay. Patterns must always match.
///
/// ```
/// # use std::time::Duration;
/// # use tidemill_workflow::{Ctx, Signal, WorkflowError, select};
/// # const APPROVE: Signal<bool> = Signal::new("approve");
/// # async fn approved(ctx: Ctx) -> Result<bool, WorkflowError> {
/// Ok(select! {
///     answer = ctx.signals(&APPROVE).recv() => answer?,
///     _ = ctx.sleep(Duration::from_secs(60)) => false,
/// })
/// # }
/// ```
#[macro_export]
macro_rules! select {
    ($($branches:tt)+) => { $crate::__select!(@collect [] $($branches)+) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    (@collect [$($done:tt)*] $pattern:pat = $future:expr => $handler:block, $($rest:tt)*) => {
        $crate::__select!(@collect [$($done)* (future, $future, $pattern, $handler)] $($rest)*)
    };
    (@collect [$($done:tt)*] $pattern:pat = $future:expr => $handler:block $($rest:tt)*) => {
        $crate::__select!(@collect [$($done)* (future, $future, $pattern, $handler)] $($rest)*)
    };
    (@collect [$($done:tt)*] $pattern:pat = $future:expr => $handler:expr, $($rest:tt)*) => {
        $crate::__select!(@collect [$($done)* (future, $future, $pattern, $handler)] $($rest)*)
    };
    (@collect [$($done:tt)*] $pattern:pat = $future:expr => $handler:expr) => {
        $crate::__select!(@collect [$($done)* (future, $future, $pattern, $handler)])
    };
    (@collect [$(($name:ident, $future:expr, $pattern:pat, $handler:expr))+]) => {{
        let first = {
            let mut losers = $crate::__private::Losers::default();
            $(let mut $name = ::core::pin::pin!(::core::future::IntoFuture::into_future($future));)+
            let first = ::core::future::poll_fn(|cx| $crate::__select!(@poll cx $($name)+)).await;
            losers.drop_from_here();
            first
        };
        $crate::__select!(@branch first $(($pattern, $handler))+)
    }};
    (@poll $cx:ident) => { ::core::task::Poll::<::core::convert::Infallible>::Pending };
    (@poll $cx:ident $name:ident $($rest:ident)*) => {
        match ::core::future::Future::poll($name.as_mut(), $cx) {
            ::core::task::Poll::Ready(output) => {
                ::core::task::Poll::Ready($crate::__private::Either::First(output))
            }
            ::core::task::Poll::Pending => {
                $crate::__select!(@poll $cx $($rest)*).map($crate::__private::Either::Rest)
            }
        }
    };
    (@branch $first:ident) => { match $first {} };
    (@branch $first:ident ($pattern:pat, $handler:expr) $($rest:tt)*) => {
        match $first {
            $crate::__private::Either::First($pattern) => $handler,
            $crate::__private::Either::Rest(rest) => $crate::__select!(@branch rest $($rest)*),
        }
    };
}
