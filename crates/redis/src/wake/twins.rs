//! Announcements that come twice: with a hint, and by the type alone for programs that know no other form.
//!
//! The hint says whether a second form follows. It comes from the same server behind the first, so whoever has read the
//! first ignores one message of the other form.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long the second form may take. One that is later counts as another program's.
const TWIN_DELAY: Duration = Duration::from_secs(2);

/// How many types may be expected before those that are overdue are forgotten.
const MAX_TYPES: usize = 256;

/// How many messages of each type are still to be ignored, and since when.
#[derive(Debug, Default)]
pub(super) struct Twins(HashMap<String, (usize, Instant)>);

impl Twins {
    /// A message with a hint came that has a second form.
    pub(super) fn expect(&mut self, type_name: &str, now: Instant) {
        if self.0.len() >= MAX_TYPES {
            self.0.retain(|_, (_, last)| now.duration_since(*last) <= TWIN_DELAY);
        }
        let (count, last) = self.0.entry(type_name.to_owned()).or_insert((0, now));
        let before = if now.duration_since(*last) <= TWIN_DELAY { *count } else { 0 };
        (*count, *last) = (before + 1, now);
    }

    /// Whether a message without a hint is the second form of one that came before.
    pub(super) fn recognise(&mut self, type_name: &str, now: Instant) -> bool {
        let Some((count, last)) = self.0.get_mut(type_name) else { return false };
        let is_twin = now.duration_since(*last) <= TWIN_DELAY;
        *count -= 1;
        if *count == 0 || !is_twin {
            self.0.remove(type_name);
        }
        is_twin
    }

    /// The connection is gone, and with it what was under way.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_form_is_ignored_once_and_others_are_not() {
        let (mut twins, now) = (Twins::default(), Instant::now());
        twins.expect("mail", now);
        twins.expect("mail", now);
        assert!(!twins.recognise("other", now));
        assert_eq!([(); 3].map(|()| twins.recognise("mail", now)), [true, true, false]);
    }

    #[test]
    fn one_that_never_comes_hides_nothing_later_and_is_forgotten() {
        let (mut twins, now) = (Twins::default(), Instant::now());
        let later = now + TWIN_DELAY * 2;
        twins.expect("mail", now);
        assert!(!twins.recognise("mail", later));
        (0..MAX_TYPES).for_each(|number| twins.expect(&number.to_string(), now));
        twins.expect("mail", later);
        assert_eq!(twins.0.len(), 1);
    }
}
