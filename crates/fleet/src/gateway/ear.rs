//! Hears what the store announces, and passes it on to whom it concerns.

use futures_util::StreamExt;
use tidemill_core::wake::Wake;
use tokio_util::sync::CancellationToken;

use super::desk::Desk;

/// Listens until `stop`.
pub(crate) async fn run(desk: &Desk, stop: CancellationToken) {
    let mut wakes = desk.store.subscribe();
    loop {
        let wake = tokio::select! {
            wake = wakes.next() => wake,
            () = stop.cancelled() => return,
        };
        match wake {
            Some(Wake::Capacity(kind)) => desk.lines.call(Some(&kind)),
            Some(Wake::Session(session)) => desk.holdings.ask_about(&session),
            Some(Wake::Everything) => {
                desk.lines.call(None);
                desk.holdings.doubt();
            }
            Some(_) => {}
            None => return,
        }
    }
}
