//! The demo's script: enqueues jobs in waves and cancels one.

use std::time::Duration;

use tidemill::{Client, Error, secs};
use tokio::time::sleep;

use super::jobs::{
    self, CallApi, DemoState, ImportReport, Ping, RenderVideo, ResizeImage, SendEmail, SendReminder,
};

/// Number of waves of images and pings, so that the view changes.
const WAVES: u32 = 5;
const WAVE_INTERVAL: Duration = Duration::from_millis(900);

/// Time after which the video is cancelled.
const CANCEL_AFTER: Duration = secs(2);

/// Delay of the reminders.
const REMINDER_DELAY: Duration = secs(4);

/// The demo's script.
pub(super) struct DemoScript {
    client: Client,
    state: DemoState,
}

impl DemoScript {
    pub(super) fn new(client: &Client, state: DemoState) -> Self {
        Self { client: client.clone(), state }
    }

    /// Runs the script.
    pub(super) async fn run(self) -> Result<(), Error> {
        tokio::try_join!(self.enqueue_batches(), self.enqueue_waves(), self.cancel_video())?;
        Ok(())
    }

    /// Enqueues all jobs that do not come in waves.
    async fn enqueue_batches(&self) -> Result<(), Error> {
        let emails = (0..jobs::EMAIL_JOBS).map(|n| SendEmail { to: format!("customer-{n}@example.com") });
        self.client.jobs(emails).enqueue().await?;
        self.client.jobs((0..jobs::API_CALL_JOBS).map(|number| CallApi { number })).enqueue().await?;
        self.client.jobs((0..jobs::IMPORT_JOBS).map(ImportReport::numbered)).enqueue().await?;
        let reminders =
            (0..jobs::REMINDER_JOBS).map(|n| SendReminder { to: format!("team-{n}@example.com") });
        self.client.jobs(reminders).delay(REMINDER_DELAY).enqueue().await?;
        Ok(())
    }

    async fn enqueue_waves(&self) -> Result<(), Error> {
        for wave in 0..WAVES {
            let number = |n| wave * jobs::IMAGE_JOBS / WAVES + n;
            let images = (0..jobs::IMAGE_JOBS / WAVES).map(|n| ResizeImage { number: number(n) });
            self.client.jobs(images).enqueue().await?;
            let pings = (0..jobs::PING_JOBS / WAVES).map(|n| Ping { host: format!("node-{n}") });
            self.client.jobs(pings).enqueue().await?;
            sleep(WAVE_INTERVAL).await;
        }
        Ok(())
    }

    async fn cancel_video(&self) -> Result<(), Error> {
        let video = self.client.job(RenderVideo { file: "holidays.mov".to_owned() }).enqueue().await?;
        self.state.rendering.notified().await;
        sleep(CANCEL_AFTER).await;
        video.cancel().await?;
        Ok(())
    }
}
