//! The demo's jobs and their simulated handlers.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill::{Backoff, Fail, Guarantee, Job, JobContext, State, secs};
use tokio::sync::Notify;
use tokio::time::sleep;

pub(super) const MEDIA_QUEUE: &str = "demo.media";
pub(super) const MAIL_QUEUE: &str = "demo.mail";
pub(super) const API_QUEUE: &str = "demo.api";
pub(super) const REPORTS_QUEUE: &str = "demo.reports";
pub(super) const PINGS_QUEUE: &str = "demo.pings";

pub(super) const IMAGE_JOBS: u32 = 200;
pub(super) const EMAIL_JOBS: u32 = 40;
pub(super) const API_CALL_JOBS: u32 = 60;
pub(super) const IMPORT_JOBS: u32 = 12;
pub(super) const REMINDER_JOBS: u32 = 5;
pub(super) const VIDEO_JOBS: u32 = 1;
pub(super) const PING_JOBS: u32 = 50;

/// The number of jobs, and the number of their kinds.
pub(super) const TOTAL_JOBS: u32 =
    IMAGE_JOBS + EMAIL_JOBS + API_CALL_JOBS + IMPORT_JOBS + REMINDER_JOBS + VIDEO_JOBS + PING_JOBS;
pub(super) const KINDS: usize = 7;

/// The number of the report that cannot be parsed.
const BROKEN_REPORT: u32 = 7;

/// State of the handlers: signals when the video is being rendered.
#[derive(Debug, Clone, Default)]
pub(super) struct DemoState {
    pub(super) rendering: Arc<Notify>,
}

macro_rules! jobs {
    ($($(#[$doc:meta])* $type:ident($field:ident: $of:ty) is $kind:literal on $queue:expr, { $($rest:tt)* })*) => {
        $($(#[$doc])*
        #[derive(Debug, Serialize, Deserialize)]
        pub(super) struct $type {
            pub(super) $field: $of,
        }
        impl Job for $type {
            const KIND: &'static str = $kind;
            const QUEUE: &'static str = $queue;
            type Output = ();
            $($rest)*
        })*
    };
}

jobs! {
    /// Succeeds.
    ResizeImage(number: u32) is "resize_image" on MEDIA_QUEUE, {}
    /// Runs until it is cancelled.
    RenderVideo(file: String) is "render_video" on MEDIA_QUEUE, {}
    /// Fails twice, because mail servers greylist, then succeeds.
    SendEmail(to: String) is "send_email" on MAIL_QUEUE, {
        const BACKOFF: Backoff = Backoff { base: Duration::from_millis(400), max: secs(5), jitter: Duration::from_millis(200) };
    }
    /// Is scheduled for later.
    SendReminder(to: String) is "send_reminder" on MAIL_QUEUE, {}
    /// Every third fails once.
    CallApi(number: u32) is "call_api" on API_QUEUE, {
        const BACKOFF: Backoff = Backoff::constant(Duration::from_millis(600));
    }
    /// Succeeds, unless the report is broken.
    ImportReport(file: String) is "import_report" on REPORTS_QUEUE, {}
    /// At most once: lost if this process dies.
    Ping(host: String) is "ping" on PINGS_QUEUE, {
        const GUARANTEE: Guarantee = Guarantee::AtMostOnce;
    }
}

impl ImportReport {
    pub(super) fn numbered(number: u32) -> Self {
        let file = if number == BROKEN_REPORT {
            "q3-final(2).csv".to_owned()
        } else {
            format!("report-{number:02}.csv")
        };
        Self { file }
    }
}

async fn work(millis: u64) {
    sleep(Duration::from_millis(millis)).await;
}

pub(super) async fn resize_image(job: ResizeImage) -> Result<(), Fail> {
    work(180 + u64::from(job.number * 37 % 120)).await;
    Ok(())
}

pub(super) async fn render_video(_: RenderVideo, State(state): State<DemoState>) -> Result<(), Fail> {
    state.rendering.notify_one();
    sleep(secs(3_600)).await;
    Ok(())
}

pub(super) async fn send_email(job: SendEmail, cx: JobContext) -> Result<(), Fail> {
    work(80).await;
    if cx.attempt() < 3 {
        return Err(Fail::retry(format!("451 greylisted, try again later: {}", job.to)));
    }
    Ok(())
}

pub(super) async fn send_reminder(_: SendReminder) -> Result<(), Fail> {
    work(80).await;
    Ok(())
}

pub(super) async fn call_api(job: CallApi, cx: JobContext) -> Result<(), Fail> {
    work(150).await;
    if job.number.is_multiple_of(3) && cx.attempt() == 1 {
        return Err(Fail::retry("503 service unavailable"));
    }
    Ok(())
}

pub(super) async fn import_report(job: ImportReport) -> Result<(), Fail> {
    work(350).await;
    if job.file == ImportReport::numbered(BROKEN_REPORT).file {
        let error = format!("{}, line 17: expected 4 columns, found 3", job.file);
        return Err(Fail::dead("bad_format", error));
    }
    Ok(())
}

pub(super) async fn ping(_: Ping) -> Result<(), Fail> {
    work(60).await;
    Ok(())
}
