//! The demo's jobs: what they are given and what they pretend to do.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill::{Backoff, Fail, Guarantee, Job, JobContext, State, secs};
use tokio::sync::Notify;
use tokio::time::sleep;

pub(super) const MEDIA: &str = "demo.media";
pub(super) const MAIL: &str = "demo.mail";
pub(super) const API: &str = "demo.api";
pub(super) const REPORTS: &str = "demo.reports";
pub(super) const PINGS: &str = "demo.pings";

pub(super) const IMAGES: u32 = 200;
pub(super) const EMAILS: u32 = 40;
pub(super) const CALLS: u32 = 60;
pub(super) const IMPORTS: u32 = 12;
pub(super) const REMINDERS: u32 = 5;
pub(super) const VIDEOS: u32 = 1;
pub(super) const PINGED: u32 = 50;

/// All jobs together, and how many kinds of them there are.
pub(super) const TOTAL: u32 = IMAGES + EMAILS + CALLS + IMPORTS + REMINDERS + VIDEOS + PINGED;
pub(super) const KINDS: usize = 7;

/// The report that nobody can read.
const BROKEN: u32 = 7;

/// What the jobs share: someone wants to know when the video is being rendered.
#[derive(Debug, Clone, Default)]
pub(super) struct Studio {
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
    /// Just works.
    ResizeImage(number: u32) is "resize_image" on MEDIA, {}
    /// Takes so long that somebody cancels it.
    RenderVideo(file: String) is "render_video" on MEDIA, {}
    /// Fails twice, because mail servers greylist, then works.
    SendEmail(to: String) is "send_email" on MAIL, {
        const BACKOFF: Backoff = Backoff { base: Duration::from_millis(400), max: secs(5), jitter: Duration::from_millis(200) };
    }
    /// Runs later.
    SendReminder(to: String) is "send_reminder" on MAIL, {}
    /// Fails now and then.
    CallApi(number: u32) is "call_api" on API, {
        const BACKOFF: Backoff = Backoff::constant(Duration::from_millis(600));
    }
    /// Works, unless the report is broken.
    ImportReport(file: String) is "import_report" on REPORTS, {}
    /// Lost if this process dies, and cheap.
    Ping(host: String) is "ping" on PINGS, {
        const GUARANTEE: Guarantee = Guarantee::AtMostOnce;
    }
}

impl ImportReport {
    pub(super) fn numbered(number: u32) -> Self {
        let file =
            if number == BROKEN { "q3-final(2).csv".to_owned() } else { format!("report-{number:02}.csv") };
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

pub(super) async fn render_video(_: RenderVideo, State(studio): State<Studio>) -> Result<(), Fail> {
    studio.rendering.notify_one();
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
    if job.file == ImportReport::numbered(BROKEN).file {
        let error = format!("{}, line 17: expected 4 columns, found 3", job.file);
        return Err(Fail::dead("bad_format", error));
    }
    Ok(())
}

pub(super) async fn ping(_: Ping) -> Result<(), Fail> {
    work(60).await;
    Ok(())
}
