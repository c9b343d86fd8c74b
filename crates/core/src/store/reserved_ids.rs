//! Reserved ids: rejects attempts to create or remove jobs that belong to a workflow run.
//!
//! Every store calls these checks first, so that all stores reject the same requests.

use super::{Error, NewJob};
use crate::name::JobId;

/// Checks that no new job has an id that belongs to a run.
///
/// # Errors
/// [`Error::Invalid`] with the run.
pub fn check_new(jobs: &[NewJob]) -> Result<(), Error> {
    // Generated ids belong to no run.
    let explicit = jobs.iter().filter(|job| !job.generated_id);
    explicit.map(|job| &job.id).try_for_each(check_explicit_id)
}

/// Rejects an id that belongs to a run.
pub(crate) fn check_explicit_id(job: &JobId) -> Result<(), Error> {
    match job.run() {
        Some(run) => Err(Error::Invalid(format!(
            "job id {job:?} is not valid: what ends in `!` and a word or a number belongs to a run, here `{run}`"
        ))),
        None => Ok(()),
    }
}

/// Rejects the removal or external completion of a run's task or remote command. Activities are
/// allowed, because their run is notified.
///
/// # Errors
/// [`Error::Invalid`] with the run.
pub fn check_removal(job: &JobId) -> Result<(), Error> {
    match job.run().filter(|_| job.is_run_internal()) {
        Some(run) => Err(Error::Invalid(format!(
            "run `{run}` goes on by job {job}: cancel or terminate the run (`tidemill workflow cancel {run}`)"
        ))),
        None => Ok(()),
    }
}

/// Rejects the deletion of any job that belongs to a run, because the run would not be notified.
///
/// # Errors
/// [`Error::Invalid`] with the run.
pub fn check_deletion(chain: &JobId) -> Result<(), Error> {
    check_removal(chain)?;
    match chain.run() {
        Some(run) => Err(Error::Invalid(format!("run `{run}` waits for job {chain}: cancel it instead"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::RunId;

    #[test]
    fn a_run_is_named_by_whoever_refuses() {
        let run = RunId::new("order-7").unwrap();
        for own in [run.task(), run.part("c4")] {
            let error = check_removal(&own).unwrap_err().to_string();
            assert!(error.contains("tidemill workflow cancel order-7"), "{error}");
        }
        assert!(check_removal(&run.part(4)).is_ok() && check_deletion(&run.part(4)).is_err());
        let job = JobId::new("order-7").unwrap();
        assert!(
            check_explicit_id(&job).is_ok() && check_removal(&job).is_ok() && check_deletion(&job).is_ok()
        );
        assert!(check_explicit_id(&run.part(4)).is_err());
    }
}
