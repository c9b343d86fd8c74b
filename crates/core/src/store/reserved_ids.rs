//! What belongs to a run is the run's to make and to take away: whoever else wants to is told so.
//!
//! Every store asks here before it does what is asked of it, so that all of them refuse the same.

use super::{Error, NewJob};
use crate::name::JobId;

/// Refuses to add jobs that would pass for something of a run's.
pub fn check_new(jobs: &[NewJob]) -> Result<(), Error> {
    // An id that was made for this very call is nobody's.
    let given = jobs.iter().filter(|job| !job.generated_id);
    given.map(|job| &job.id).try_for_each(check_explicit_id)
}

/// Refuses an id that belongs to a run.
pub(crate) fn check_explicit_id(job: &JobId) -> Result<(), Error> {
    match job.run() {
        Some(run) => Err(Error::Invalid(format!(
            "job id {job:?} is not valid: what ends in `!` and a word or a number belongs to a run, here `{run}`"
        ))),
        None => Ok(()),
    }
}

/// Refuses to take away, or to end from outside, what a run goes on by. Its activities may be: it is told of them.
pub fn check_removal(job: &JobId) -> Result<(), Error> {
    match job.run().filter(|_| job.is_run_internal()) {
        Some(run) => Err(Error::Invalid(format!(
            "run `{run}` goes on by job {job}: cancel or terminate the run (`tidemill workflow cancel {run}`)"
        ))),
        None => Ok(()),
    }
}

/// Refuses to delete, without a word to anybody, what belongs to a run.
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
