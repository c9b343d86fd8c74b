//! The final check of the random scenario: accounts for every job.

use std::collections::HashSet;
use std::fmt;

use anyhow::{Context, Result, ensure};
use tidemill::{DeadLetter, DeadLetterFilter, Guarantee};

use super::chaos::{AcknowledgedJob, Expectation};
use crate::audit::Audit;
use crate::environment::Environment;
use crate::job::{Behaviour, QUEUE, TestJob};
use crate::ledger::LedgerEvent;

/// The report of the scenario.
#[derive(Debug)]
pub struct RandomReport {
    /// Jobs whose enqueue was acknowledged.
    pub acknowledged: usize,
    /// The number of started attempts.
    pub started: usize,
    /// Dead letters.
    pub dead: usize,
}

impl fmt::Display for RandomReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, started, dead } = self;
        write!(
            f,
            "{acknowledged} jobs made, {started} attempts started, {dead} dead letters, every job accounted for"
        )
    }
}

/// Compares the acknowledged jobs with the ledger and the store.
pub(super) async fn check(
    environment: &Environment,
    acknowledged: &[AcknowledgedJob],
) -> Result<RandomReport> {
    let audit = environment.audit()?;
    audit.assert_ended_once()?;
    let at_least_once =
        || acknowledged.iter().filter(|acknowledged| acknowledged.delivery == Guarantee::AtLeastOnce);
    let free = || at_least_once().filter(|acknowledged| acknowledged.expectation == Expectation::MustRun);
    let survivors = free().filter(|acknowledged| !must_die(acknowledged.behaviour));
    audit.assert_all_ran(survivors.map(|acknowledged| acknowledged.job.as_str()))?;
    let letters = environment.letters().await?;
    check_letters(&letters, free().filter(|acknowledged| must_die(acknowledged.behaviour)))?;
    check_at_most_once(
        &audit,
        acknowledged.iter().filter(|acknowledged| acknowledged.delivery == Guarantee::AtMostOnce),
    )?;
    check_removed(&audit, acknowledged)?;
    environment.client.dead_letters(QUEUE).drop(&DeadLetterFilter::all()).await?;
    environment.assert_empty().await?;
    Ok(RandomReport {
        acknowledged: acknowledged.len(),
        started: audit.count(LedgerEvent::Started),
        dead: letters.len(),
    })
}

/// Whether a job must become a dead letter.
fn must_die(behaviour: Behaviour) -> bool {
    matches!(behaviour, Behaviour::Die | Behaviour::Abort)
}

fn check_letters<'a>(
    letters: &[DeadLetter],
    expected_dead: impl Iterator<Item = &'a AcknowledgedJob>,
) -> Result<()> {
    for letter in letters {
        let envelope = letter.envelope().context("a dead letter without an envelope")?;
        let test_job: TestJob = serde_json::from_slice(envelope.payload())?;
        ensure!(must_die(test_job.behaviour), "a dead letter of a job that must succeed: {letter:?}");
    }
    let dead: HashSet<&str> = letters.iter().map(|letter| letter.job.as_str()).collect();
    let missing = expected_dead.filter(|acknowledged| !dead.contains(acknowledged.job.as_str())).count();
    ensure!(missing == 0, "{missing} jobs are missing from the dead letters");
    Ok(())
}

fn check_at_most_once<'a>(
    audit: &Audit,
    mut acknowledged: impl Iterator<Item = &'a AcknowledgedJob>,
) -> Result<()> {
    let starts = audit.per_job(LedgerEvent::Started);
    let twice = acknowledged
        .find(|acknowledged| starts.get(acknowledged.job.as_str()).is_some_and(|times| *times > 1));
    ensure!(twice.is_none(), "started twice, though at most once: {twice:?}");
    Ok(())
}

fn check_removed(audit: &Audit, acknowledged: &[AcknowledgedJob]) -> Result<()> {
    for acknowledged in acknowledged {
        let Expectation::Removed(at) = acknowledged.expectation else { continue };
        let late = audit
            .all(LedgerEvent::Started)
            .find(|entry| entry.job == acknowledged.job.as_str() && entry.at > at);
        ensure!(late.is_none(), "a job started after it was removed: {late:?}");
    }
    Ok(())
}
