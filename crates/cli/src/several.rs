//! Commands that act on several ids: an id that cannot be acted on does not keep the others from it.

use std::process::ExitCode;

use tidemill::Error;

use crate::failure;

/// Acts on each of `ids`; `act` returns whether it was done. The exit code says whether all were.
///
/// An error is reported and the next id follows. A store that is not available ends the command: every further id would
/// wait for it as long.
pub(crate) async fn each<T>(
    ids: &[T],
    act: impl AsyncFn(&T) -> anyhow::Result<bool>,
) -> anyhow::Result<ExitCode> {
    let mut all_done = true;
    for (index, id) in ids.iter().enumerate() {
        match act(id).await {
            Ok(done) => all_done &= done,
            Err(error) if ids.len() == 1 => return Err(error),
            Err(error) if is_unavailable(&error) => {
                return Err(error.context(format!("{index} of {} were dealt with", ids.len())));
            }
            Err(error) => {
                failure::report(&error);
                all_done = false;
            }
        }
    }
    Ok(if all_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_unavailable(error: &anyhow::Error) -> bool {
    let is_it = |cause: &(dyn std::error::Error + 'static)| {
        matches!(failure::of_store(cause), Some(Error::Unavailable { .. } | Error::Unanswered { .. }))
    };
    error.chain().any(is_it)
}
