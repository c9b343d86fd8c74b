//! The `select!` macro: waits for the first of several futures, in the order in which they are
//! written.

use std::cell::Cell;

thread_local! {
    /// How many `select!`s on this thread are dropping their unselected branches.
    static DROPPING_UNSELECTED: Cell<u32> = const { Cell::new(0) };
}

/// Whether the current drop is that of an unselected branch of a `select!`. Such a branch is
/// cancelled, unlike one that is dropped because the code returned.
pub(crate) fn is_dropping_unselected() -> bool {
    DROPPING_UNSELECTED.get() > 0
}

/// Marks the drop of the unselected branches. Declared before the futures of a `select!`, and so
/// dropped after them.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Unselected {
    dropping: bool,
}

impl Unselected {
    /// Marks the start of the drops on this thread. Nothing is awaited until they are done.
    pub fn begin_drop(&mut self) {
        if !std::mem::replace(&mut self.dropping, true) {
            DROPPING_UNSELECTED.set(DROPPING_UNSELECTED.get() + 1);
        }
    }
}

impl Drop for Unselected {
    fn drop(&mut self) {
        if self.dropping {
            DROPPING_UNSELECTED.set(DROPPING_UNSELECTED.get() - 1);
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

/// Waits for the first of several futures to complete, drops the others, and runs its branch.
/// Dropping a future cancels the activities, timers and children it waits for.
///
/// Biased: if several are complete, the first one written wins. A random choice would differ in a
/// replay. Patterns must be irrefutable.
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
            let mut unselected = $crate::__private::Unselected::default();
            $(let mut $name = ::core::pin::pin!(::core::future::IntoFuture::into_future($future));)+
            let first = ::core::future::poll_fn(|cx| $crate::__select!(@poll cx $($name)+)).await;
            unselected.begin_drop();
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
