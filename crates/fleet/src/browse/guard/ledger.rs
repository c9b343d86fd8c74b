//! What a job's proxy could not let through, so that whoever reads the job's end can see it.

use std::sync::{Mutex, PoisonError};

use url::Url;

use super::reach::{Target, Unreachable};

/// How many of each are remembered: a page may ask for thousands.
const MOST: usize = 16;

/// What was refused and what failed, in the order it happened, each once.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    refused: Vec<String>,
    failed: Vec<String>,
}

impl Ledger {
    pub(super) fn note(&self, unreachable: &Unreachable) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let (page, what) = match unreachable {
            Unreachable::Refused(what) => (&mut pages.refused, what),
            Unreachable::Failed(what) => (&mut pages.failed, what),
        };
        if page.len() < MOST && !page.contains(what) {
            page.push(what.clone());
        }
    }

    /// What was refused.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).refused.clone()
    }

    /// What was refused of the server at `url`, if anything.
    pub(crate) fn refusal_of(&self, url: &Url) -> Option<String> {
        let target = Target::new(url.host_str()?, url.port_or_known_default()?).to_string();
        let is_it = |refused: &String| {
            refused.strip_prefix(&target).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        self.refused().into_iter().find(is_it)
    }

    /// What could not be reached.
    pub(crate) fn failed(&self) -> Vec<String> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).failed.clone()
    }
}
