//! Running a worker until it is done or receives a signal.

use std::sync::Arc;

use tidemill::{Report, Worker};
use tokio_util::sync::CancellationToken;

use crate::error::CliError;
use crate::exec::ProcessGroups;
use crate::output::Screen;
use crate::signals::Signals;

/// Runs `engine` until `until` completes or a signal arrives, then shuts it down in order. A second
/// signal ends it at once and kills its programs.
pub(crate) async fn serve(
    engine: Worker,
    groups: &Arc<ProcessGroups>,
    screen: &Screen,
    until: impl Future<Output = ()> + Send,
) -> anyhow::Result<Report> {
    let mut signals = Signals::listen()?;
    let stop = CancellationToken::new();
    let run = Box::pin(engine.run_until(async {
        tokio::select! {
            () = until => {}
            () = stop.cancelled() => {}
        }
    }));
    let signalled = async {
        signals.next().await;
        screen.print_line("stopping: what runs may end, nothing new starts (once more: at once)");
        stop.cancel();
        signals.next().await;
    };
    tokio::select! {
        report = run => {
            groups.wait_until_empty().await;
            Ok(report?)
        }
        () = signalled => {
            groups.kill();
            let error = CliError::failed("stopped at once");
            Err(error.hint("jobs that were running run again when their lease is over").into())
        }
    }
}
