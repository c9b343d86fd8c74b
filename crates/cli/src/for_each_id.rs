//! Commands on several ids: a failure for one id does not stop the others.

use std::process::ExitCode;

use tidemill::Error;

use crate::error;

/// Calls `act` for each id; `act` returns whether it succeeded. The exit code says whether all
/// succeeded.
///
/// Reports an error and continues with the next id. An unavailable store ends the command, because
/// every further id would wait for it as long.
pub(crate) async fn for_each_id<T>(
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
                error::report(&error);
                all_done = false;
            }
        }
    }
    Ok(if all_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_unavailable(error: &anyhow::Error) -> bool {
    let is_store_gone = |cause: &(dyn std::error::Error + 'static)| {
        matches!(error::store_error(cause), Some(Error::Unavailable { .. } | Error::Unanswered { .. }))
    };
    error.chain().any(is_store_gone)
}
