//! Runs a worker until it is done or told to stop: once in order, twice at once.

use std::sync::Arc;

use tidemill::{Report, Worker};
use tokio_util::sync::CancellationToken;

use crate::exec::Groups;
use crate::failure::Complaint;
use crate::output::Screen;
use crate::signals::Signals;

/// Runs `engine` until `until` completes or a signal comes, then shuts it down in order. A second signal ends
/// it there and then, with every program it runs.
pub(crate) async fn serve(
    engine: Worker,
    groups: &Arc<Groups>,
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
    let twice = async {
        signals.next().await;
        screen.say("stopping: what runs may end, nothing new starts (once more: at once)");
        stop.cancel();
        signals.next().await;
    };
    tokio::select! {
        report = run => {
            groups.gone().await;
            Ok(report?)
        }
        () = twice => {
            groups.kill();
            let complaint = Complaint::failed("stopped at once");
            Err(complaint.hint("jobs that were running run again when their lease is over").into())
        }
    }
}
