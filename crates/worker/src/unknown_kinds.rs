//! The log of kinds without a handler in this worker: each is logged once per interval, however
//! many jobs it has.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_core::Kind;
use tracing::warn;

/// How often one kind is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// How many kinds are remembered. Clients choose the kinds, so their number is unlimited. Beyond
/// this many per interval, further kinds are not logged.
const MAX_KINDS: usize = 256;

/// When each kind was last logged.
#[derive(Debug, Default)]
pub(crate) struct UnknownKinds(Mutex<HashMap<Kind, Instant>>);

impl UnknownKinds {
    /// Logs the kind, unless it was logged recently.
    pub(crate) fn log(&self, kind: &Kind) {
        if self.is_due(kind, Instant::now()) {
            warn!("no handler for kind `{kind}` here; its jobs are postponed for another worker");
        }
    }

    fn is_due(&self, kind: &Kind, now: Instant) -> bool {
        let is_recent = |logged: &Instant| now.duration_since(*logged) <= LOG_INTERVAL;
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.get(kind).is_some_and(is_recent) {
            return false;
        }
        if logged.len() >= MAX_KINDS {
            logged.retain(|_, logged| is_recent(logged));
        }
        let has_room = logged.len() < MAX_KINDS;
        if has_room {
            logged.insert(kind.clone(), now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(number: usize) -> Kind {
        Kind::new(&format!("kind-{number}")).unwrap()
    }

    #[test]
    fn a_kind_is_logged_once_in_an_interval() {
        let (kinds, now) = (UnknownKinds::default(), Instant::now());
        assert!(kinds.is_due(&kind(0), now));
        assert!(!kinds.is_due(&kind(0), now + LOG_INTERVAL));
        assert!(kinds.is_due(&kind(0), now + LOG_INTERVAL * 2));
    }

    #[test]
    fn ever_new_kinds_are_neither_remembered_nor_logged_without_end() {
        let (kinds, now) = (UnknownKinds::default(), Instant::now());
        let logged = (0..3 * MAX_KINDS).filter(|&number| kinds.is_due(&kind(number), now)).count();
        assert_eq!(logged, MAX_KINDS);
        assert_eq!(kinds.0.lock().unwrap().len(), MAX_KINDS);
        assert!(kinds.is_due(&kind(9_999), now + LOG_INTERVAL * 2));
        assert_eq!(kinds.0.lock().unwrap().len(), 1);
    }
}
