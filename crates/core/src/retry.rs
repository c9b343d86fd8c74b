//! Repeating calls whose result is unknown.

use std::future::Future;
use std::time::Duration;

use crate::clock::Clock;
use crate::store::Error;

/// The pause before each repeat. Together with the time that a store waits for an answer, all repeats end well before
/// the receipts do that stores keep for them (60 s).
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// An answer, perhaps of a repeated call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<T> {
    /// The answer.
    pub value: T,
    /// Whether a call before the one that was answered may have taken effect.
    pub after_unknown: bool,
}

/// Makes a call that is safe to repeat, and repeats it while it gets no answer, three times in all.
///
/// If no call was answered and one of them may have taken effect, the error is [`Error::Unanswered`], whatever became
/// of the others.
pub async fn until_answered<T, F>(clock: &dyn Clock, call: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    Ok(ask(clock, call).await?.value)
}

/// The same for a caller whose answer depends on whether it was the first call that took effect.
pub async fn ask<T, F>(clock: &dyn Clock, mut call: impl FnMut() -> F) -> Result<Answer<T>, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut is_unknown = false;
    let mut result = call().await;
    for pause in PAUSES {
        match &result {
            Err(error) if error.is_unavailable() => is_unknown |= matches!(error, Error::Unanswered { .. }),
            _ => break,
        }
        clock.sleep(pause).await;
        result = call().await;
    }
    match result {
        Err(Error::Unavailable { message, source }) if is_unknown => {
            Err(Error::Unanswered { message, source })
        }
        Err(Error::Full(message)) if is_unknown => Err(Error::Unanswered { message, source: None }),
        result => result.map(|value| Answer { value, after_unknown: is_unknown }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::pin::Pin;

    use super::*;
    use crate::Timestamp;

    #[derive(Debug)]
    struct NoTime;

    impl Clock for NoTime {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }

        fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::ready(()))
        }
    }

    fn away() -> Error {
        Error::Unavailable { message: "away".into(), source: None }
    }

    fn lost() -> Error {
        Error::Unanswered { message: "lost".into(), source: None }
    }

    /// What becomes of calls with these answers, and how many are left.
    fn ask<const N: usize>(answers: [Result<u8, Error>; N]) -> (Result<u8, Error>, usize) {
        let mut answers = VecDeque::from(answers);
        let call = || std::future::ready(answers.pop_front().unwrap());
        let result = futures_util::FutureExt::now_or_never(until_answered(&NoTime, call)).unwrap();
        (result, answers.len())
    }

    #[test]
    fn a_call_is_repeated_until_it_is_answered() {
        assert!(matches!(ask([Err(lost()), Err(away()), Ok(1)]), (Ok(1), 0)));
        assert!(matches!(ask([Err(away()), Ok(1), Ok(2)]), (Ok(1), 1)));
        assert!(matches!(ask([Err(Error::Invalid("no".into())), Ok(1)]), (Err(Error::Invalid(_)), 1)));
    }

    #[test]
    fn the_error_says_whether_one_of_the_calls_may_have_taken_effect() {
        assert!(matches!(ask([Err(lost()), Err(away()), Err(away())]), (Err(Error::Unanswered { .. }), 0)));
        let full = || Err(Error::Full("memory".into()));
        assert!(matches!(ask([Err(lost()), full()]), (Err(Error::Unanswered { .. }), 0)));
        assert!(matches!(ask([Err(away()), Err(away()), Err(away())]), (Err(Error::Unavailable { .. }), 0)));
        assert!(matches!(ask([Err(away()), full()]), (Err(Error::Full(_)), 0)));
    }
}
