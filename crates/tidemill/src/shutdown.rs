//! The signals that ask a service to stop.

/// Completes at the first SIGINT or SIGTERM; on other platforms at Ctrl-C. Pass it to
/// [`WorkerBuilder::run_until`](crate::WorkerBuilder::run_until), so that a deploy ends the worker
/// in order: running handlers get their grace period, and no lease has to expire.
///
/// Listening begins when this future is first polled and lasts until the process ends. A second
/// signal does not end the process either; only SIGKILL does.
///
/// If the process cannot listen for a signal, the other one still completes the future.
///
/// ```no_run
/// # use tidemill::Worker;
/// # async fn serve(worker: tidemill::WorkerBuilder) -> Result<(), tidemill::WorkerError> {
/// worker.run_until(tidemill::shutdown_signal()).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// Cancel safe.
pub async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let next = async |kind| match signal(kind) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        };
        tokio::select! {
            () = next(SignalKind::interrupt()) => {}
            () = next(SignalKind::terminate()) => {}
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
