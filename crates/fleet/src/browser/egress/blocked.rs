//! The blocked log: what a job's proxy did not let through, for the job's result.

use std::sync::{Mutex, PoisonError};

use url::Url;

use super::policy::{EgressError, EgressTarget};

/// The most entries of each kind: a page may make thousands of requests.
const MAX_ENTRIES: usize = 16;

/// Refused and failed addresses in order, each once.
#[derive(Debug, Default)]
pub(crate) struct BlockedLog {
    entries: Mutex<BlockedEntries>,
}

#[derive(Debug, Default)]
struct BlockedEntries {
    refused: Vec<String>,
    failed: Vec<String>,
}

impl BlockedLog {
    pub(super) fn record(&self, error: &EgressError) {
        let mut all = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (entries, address) = match error {
            EgressError::Refused(address) => (&mut all.refused, address),
            EgressError::Failed(address) => (&mut all.failed, address),
        };
        if entries.len() < MAX_ENTRIES && !entries.contains(address) {
            entries.push(address.clone());
        }
    }

    /// The addresses that the policy refused.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).refused.clone()
    }

    /// The refused address of the server at `url`, if any.
    pub(crate) fn find_refused(&self, url: &Url) -> Option<String> {
        let target = EgressTarget::new(url.host_str()?, url.port_or_known_default()?).to_string();
        let is_target = |refused: &String| {
            refused.strip_prefix(&target).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        self.refused().into_iter().find(is_target)
    }

    /// The addresses that could not be reached.
    pub(crate) fn failed(&self) -> Vec<String> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).failed.clone()
    }
}
