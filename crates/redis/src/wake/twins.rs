//! Announcements that are sent twice: with a hint, and by the type alone for programs without
//! hints.
//!
//! The hint says whether a second message follows. The same server sends it after the first, so a
//! receiver of the first ignores one message of the other form.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long the second message may take. A later one counts as another program's.
const TWIN_TIMEOUT: Duration = Duration::from_secs(2);

/// How many types are tracked before expired ones are removed.
const MAX_TYPES: usize = 256;

/// How many messages of each type are to be ignored, and since when.
#[derive(Debug, Default)]
pub(super) struct ExpectedTwins(HashMap<String, (usize, Instant)>);

impl ExpectedTwins {
    /// Records a message with a hint that announces a second one.
    pub(super) fn expect(&mut self, type_name: &str, now: Instant) {
        if self.0.len() >= MAX_TYPES {
            self.0.retain(|_, (_, last)| now.duration_since(*last) <= TWIN_TIMEOUT);
        }
        let (count, last) = self.0.entry(type_name.to_owned()).or_insert((0, now));
        let before = if now.duration_since(*last) <= TWIN_TIMEOUT { *count } else { 0 };
        (*count, *last) = (before + 1, now);
    }

    /// Whether a message without a hint is an expected second one.
    pub(super) fn take(&mut self, type_name: &str, now: Instant) -> bool {
        let Some((count, last)) = self.0.get_mut(type_name) else { return false };
        let is_twin = now.duration_since(*last) <= TWIN_TIMEOUT;
        *count -= 1;
        if *count == 0 || !is_twin {
            self.0.remove(type_name);
        }
        is_twin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_form_is_ignored_once_and_others_are_not() {
        let (mut twins, now) = (ExpectedTwins::default(), Instant::now());
        twins.expect("mail", now);
        twins.expect("mail", now);
        assert!(!twins.take("other", now));
        assert_eq!([(); 3].map(|()| twins.take("mail", now)), [true, true, false]);
    }

    #[test]
    fn one_that_never_comes_hides_nothing_later_and_is_forgotten() {
        let (mut twins, now) = (ExpectedTwins::default(), Instant::now());
        let later = now + TWIN_TIMEOUT * 2;
        twins.expect("mail", now);
        assert!(!twins.take("mail", later));
        (0..MAX_TYPES).for_each(|number| twins.expect(&number.to_string(), now));
        twins.expect("mail", later);
        assert_eq!(twins.0.len(), 1);
    }
}
