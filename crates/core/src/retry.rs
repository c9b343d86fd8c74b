//! Repetition of store calls whose result is unknown.

use std::future::Future;
use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::store::Error;

/// The delay before each repetition.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// How long after the first try a call with a receipt may be repeated. Receipts live for 60 s at
/// least; the difference is for a repetition that takes long to reach the server.
const RECEIPT_WINDOW: Duration = Duration::from_secs(30);

/// The answer to a call that may have been repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered<T> {
    /// The answer.
    pub value: T,
    /// Whether a call before the answered one may have taken effect.
    pub after_unknown: bool,
}

impl<T> Answered<Result<T, Error>> {
    /// The result of a call that returns some errors as values, because repeating it would not
    /// help.
    pub fn flatten(self) -> Result<T, Error> {
        self.value.map_err(|error| if self.after_unknown { as_unanswered(error) } else { error })
    }
}

/// Makes a call that is safe to repeat at any time. Repeats it while the store is unavailable or
/// its answer is lost, up to three calls in all.
///
/// # Errors
/// If no call was answered and one of them may have taken effect, the error is
/// [`Error::Unanswered`], whatever the results of the others.
pub async fn until_answered<T, F>(clock: &dyn Clock, call: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    Ok(repeat_until_answered(clock, call).await?.value)
}

/// Like [`until_answered`], and also reports whether an earlier call may have taken effect.
///
/// # Errors
/// As [`until_answered`].
pub async fn repeat_until_answered<T, F>(
    clock: &dyn Clock,
    call: impl FnMut() -> F,
) -> Result<Answered<T>, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    repeat(clock, None, call).await
}

/// Like [`repeat_until_answered`], for a call that is safe to repeat only while the receipt of its
/// first try exists. It is not repeated later than that, for example after the process was stopped
/// or the machine suspended.
///
/// # Errors
/// As [`until_answered`].
pub async fn with_receipt<T, F>(clock: &dyn Clock, call: impl FnMut() -> F) -> Result<Answered<T>, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let started = TwoClockInstant::now(clock);
    repeat(clock, Some(started), call).await
}

async fn repeat<T, F>(
    clock: &dyn Clock,
    receipt_from: Option<TwoClockInstant>,
    mut call: impl FnMut() -> F,
) -> Result<Answered<T>, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut is_unknown = false;
    let mut result = call().await;
    for pause in RETRY_DELAYS {
        match &result {
            Err(error) if error.is_unavailable() => is_unknown |= matches!(error, Error::Unanswered { .. }),
            _ => break,
        }
        clock.sleep(pause).await;
        let is_late =
            receipt_from.is_some_and(|started| started.until(TwoClockInstant::now(clock)) > RECEIPT_WINDOW);
        if is_unknown && is_late {
            break;
        }
        result = call().await;
    }
    match result {
        Err(error) if is_unknown => Err(as_unanswered(error)),
        result => result.map(|value| Answered { value, after_unknown: is_unknown }),
    }
}

/// The error to return if an earlier call may have taken effect.
pub fn as_unanswered(error: Error) -> Error {
    match error {
        // These errors already say that the effect may have or has taken place.
        Error::Unanswered { .. } | Error::Unconfirmed(_) => error,
        Error::Unavailable { message, source } => Error::Unanswered { message, source },
        other => Error::unanswered("a later try failed", other),
    }
}

/// A moment by two clocks: the monotonic clock stops while the machine is suspended, and the wall
/// clock can be set.
#[derive(Debug, Clone, Copy)]
struct TwoClockInstant {
    monotonic: Duration,
    wall: Timestamp,
}

impl TwoClockInstant {
    fn now(clock: &dyn Clock) -> Self {
        Self { monotonic: clock.monotonic(), wall: Timestamp::now() }
    }

    /// The time until `later`, by the clock that shows more.
    fn until(self, later: Self) -> Duration {
        later.monotonic.saturating_sub(self.monotonic).max(self.wall.until(later.wall))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::FutureExt;

    use super::*;

    /// A clock that advances by a number of seconds whenever it is read.
    #[derive(Debug, Default)]
    struct SteppingClock {
        seconds: u64,
        elapsed: AtomicU64,
    }

    impl Clock for SteppingClock {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.elapsed.fetch_add(self.seconds, Ordering::Relaxed))
        }

        fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::ready(()))
        }
    }

    fn unavailable() -> Error {
        Error::Unavailable { message: "away".into(), source: None }
    }

    fn unanswered() -> Error {
        Error::Unanswered { message: "lost".into(), source: None }
    }

    /// The result of calls with these answers, and how many answers are left.
    fn call_repeatedly<const N: usize>(answers: [Result<u8, Error>; N]) -> (Result<u8, Error>, usize) {
        let mut answers = VecDeque::from(answers);
        let call = || std::future::ready(answers.pop_front().unwrap());
        let result = until_answered(&SteppingClock::default(), call).now_or_never().unwrap();
        (result, answers.len())
    }

    /// The same for calls with a receipt, with a clock that advances by `seconds` whenever it is
    /// read.
    fn call_with_receipt<const N: usize>(
        seconds: u64,
        answers: [Result<u8, Error>; N],
    ) -> (Result<u8, Error>, usize) {
        let (mut answers, clock) =
            (VecDeque::from(answers), SteppingClock { seconds, ..SteppingClock::default() });
        let call = || std::future::ready(answers.pop_front().unwrap());
        let result = with_receipt(&clock, call).now_or_never().unwrap();
        (result.map(|answer| answer.value), answers.len())
    }

    #[test]
    fn a_call_is_repeated_until_it_is_answered() {
        assert!(matches!(call_repeatedly([Err(unanswered()), Err(unavailable()), Ok(1)]), (Ok(1), 0)));
        assert!(matches!(call_repeatedly([Err(unavailable()), Ok(1), Ok(2)]), (Ok(1), 1)));
        assert!(matches!(
            call_repeatedly([Err(Error::Invalid("no".into())), Ok(1)]),
            (Err(Error::Invalid(_)), 1)
        ));
    }

    #[test]
    fn the_error_says_whether_one_of_the_calls_may_have_taken_effect() {
        assert!(matches!(
            call_repeatedly([Err(unanswered()), Err(unavailable()), Err(unavailable())]),
            (Err(Error::Unanswered { .. }), 0)
        ));
        let full = || Err(Error::Full("memory".into()));
        assert!(matches!(call_repeatedly([Err(unanswered()), full()]), (Err(Error::Unanswered { .. }), 0)));
        assert!(matches!(
            call_repeatedly([Err(unavailable()), Err(unavailable()), Err(unavailable())]),
            (Err(Error::Unavailable { .. }), 0)
        ));
        assert!(matches!(call_repeatedly([Err(unavailable()), full()]), (Err(Error::Full(_)), 0)));
    }

    #[test]
    fn whatever_error_a_repeat_gets_the_first_call_may_have_taken_effect() {
        let errors: [fn(String) -> Error; 6] =
            [Error::Full, Error::Denied, Error::Unsuitable, Error::Invalid, Error::NotFound, Error::Corrupt];
        for error in errors {
            let cause = error("why".into()).to_string();
            let (result, _) = call_repeatedly([Err(unanswered()), Err(error("why".into()))]);
            let Err(error @ Error::Unanswered { .. }) = &result else { panic!("{cause}: {result:?}") };
            assert!(error.full_message().ends_with(&cause), "{}", error.full_message());
            let answer = Answered { value: Err::<(), _>(Error::Invalid("no".into())), after_unknown: true };
            assert!(matches!(answer.flatten(), Err(Error::Unanswered { .. })));
        }
        let made = || Err(Error::Unconfirmed("it was made".into()));
        assert!(matches!(call_repeatedly([Err(unanswered()), made()]), (Err(Error::Unconfirmed(_)), 0)));
    }

    #[test]
    fn a_call_is_not_repeated_when_its_receipt_may_be_gone() {
        assert!(matches!(call_with_receipt(12, [Err(unanswered()), Err(unanswered()), Ok(1)]), (Ok(1), 0)));
        assert!(matches!(
            call_with_receipt(20, [Err(unanswered()), Err(unanswered()), Ok(1)]),
            (Err(Error::Unanswered { .. }), 1)
        ));
        assert!(matches!(
            call_with_receipt(62, [Err(unanswered()), Ok(1)]),
            (Err(Error::Unanswered { .. }), 1)
        ));
        // A call without effect needs no receipt.
        assert!(matches!(call_with_receipt(62, [Err(unavailable()), Err(unavailable()), Ok(1)]), (Ok(1), 0)));
    }

    #[test]
    fn time_passes_while_the_machine_is_suspended() {
        let second = Duration::from_secs(1);
        let started = TwoClockInstant { monotonic: second, wall: Timestamp(1_000) };
        let woken = TwoClockInstant { monotonic: second * 2, wall: Timestamp(61_000) };
        assert_eq!(started.until(woken), second * 60);
        let set_back = TwoClockInstant { monotonic: second * 50, wall: Timestamp(0) };
        assert_eq!(started.until(set_back), second * 49);
    }
}
