//! Accounting for every job.

use std::collections::HashSet;
use std::fmt;

use anyhow::{Context, Result, ensure};
use tidemill::dead_letter::redrive::{self, DeadLetterFilter};
use tidemill::{DeadLetter, Guarantee};

use super::chaos::{Fate, Made};
use crate::act::{Act, Deed};
use crate::audit::Audit;
use crate::ledger::Step;
use crate::stage::{Stage, queue};

/// What there was to account for.
#[derive(Debug)]
pub struct Reckoning {
    /// Jobs that were acknowledged.
    pub made: usize,
    /// How often a handler began.
    pub started: usize,
    /// Jobs in the dead letters.
    pub dead: usize,
}

impl fmt::Display for Reckoning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { made, started, dead } = self;
        write!(
            f,
            "{made} jobs made, {started} attempts started, {dead} dead letters, every job accounted for"
        )
    }
}

/// Holds what was made against the ledger and the store.
pub(super) async fn check(stage: &Stage, made: &[Made]) -> Result<Reckoning> {
    let audit = stage.audit()?;
    audit.assert_ended_once()?;
    let at_least_once = || made.iter().filter(|made| made.delivery == Guarantee::AtLeastOnce);
    let free = || at_least_once().filter(|made| made.fate == Fate::Free);
    let survivors = free().filter(|made| !is_mortal(made.deed));
    audit.assert_all_ran(survivors.map(|made| made.job.as_str()))?;
    let letters = stage.letters().await?;
    check_letters(&letters, free().filter(|made| is_mortal(made.deed)))?;
    check_at_most_once(&audit, made.iter().filter(|made| made.delivery == Guarantee::AtMostOnce))?;
    check_removed(&audit, made)?;
    redrive::drop_dead(&**stage.client.store(), &queue()?, &DeadLetterFilter::default()).await?;
    stage.assert_nothing_is_left().await?;
    Ok(Reckoning { made: made.len(), started: audit.count(Step::Started), dead: letters.len() })
}

/// Whether a job is meant for the dead letters.
fn is_mortal(deed: Deed) -> bool {
    matches!(deed, Deed::Die | Deed::Abort)
}

fn check_letters<'a>(letters: &[DeadLetter], mortal: impl Iterator<Item = &'a Made>) -> Result<()> {
    for letter in letters {
        let envelope = letter.envelope().context("a letter that is no envelope")?;
        let act: Act = serde_json::from_slice(envelope.payload())?;
        ensure!(is_mortal(act.deed), "a job died that was to live: {letter:?}");
    }
    let dead: HashSet<&str> = letters.iter().map(|letter| letter.job.as_str()).collect();
    let missing = mortal.filter(|made| !dead.contains(made.job.as_str())).count();
    ensure!(missing == 0, "{missing} jobs were to die and are not in the dead letters");
    Ok(())
}

fn check_at_most_once<'a>(audit: &Audit, mut made: impl Iterator<Item = &'a Made>) -> Result<()> {
    let starts = audit.per_job(Step::Started);
    let twice = made.find(|made| starts.get(made.job.as_str()).is_some_and(|times| *times > 1));
    ensure!(twice.is_none(), "started twice, though at most once: {twice:?}");
    Ok(())
}

fn check_removed(audit: &Audit, made: &[Made]) -> Result<()> {
    for made in made {
        let Fate::Removed(at) = made.fate else { continue };
        let late = audit.all(Step::Started).find(|line| line.job == made.job.as_str() && line.at > at);
        ensure!(late.is_none(), "a job started after it was removed: {late:?}");
    }
    Ok(())
}
