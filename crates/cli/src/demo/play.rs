//! The demo's script: who enqueues what, when, and who changes their mind.

use std::time::Duration;

use tidemill::{Client, Error, secs};
use tokio::time::sleep;

use super::jobs::{
    self, CallApi, ImportReport, Ping, RenderVideo, ResizeImage, SendEmail, SendReminder, Studio,
};

/// Images and pings come in this many waves, so that there is something to watch.
const WAVES: u32 = 5;
const BETWEEN_WAVES: Duration = Duration::from_millis(900);

/// How long the video is rendered before somebody cancels it.
const PATIENCE: Duration = secs(2);

/// When the reminders are due.
const LATER: Duration = secs(4);

/// The demo's script.
pub(super) struct Play {
    client: Client,
    studio: Studio,
}

impl Play {
    pub(super) fn new(client: &Client, studio: Studio) -> Self {
        Self { client: client.clone(), studio }
    }

    /// Plays it to its end.
    pub(super) async fn run(self) -> Result<(), Error> {
        tokio::try_join!(self.office(), self.waves(), self.video())?;
        Ok(())
    }

    /// What an office has to do in the morning, all at once.
    async fn office(&self) -> Result<(), Error> {
        let emails = (0..jobs::EMAILS).map(|n| SendEmail { to: format!("customer-{n}@example.com") });
        self.client.jobs(emails).enqueue().await?;
        self.client.jobs((0..jobs::CALLS).map(|number| CallApi { number })).enqueue().await?;
        self.client.jobs((0..jobs::IMPORTS).map(ImportReport::numbered)).enqueue().await?;
        let reminders = (0..jobs::REMINDERS).map(|n| SendReminder { to: format!("team-{n}@example.com") });
        self.client.jobs(reminders).delay(LATER).enqueue().await?;
        Ok(())
    }

    async fn waves(&self) -> Result<(), Error> {
        for wave in 0..WAVES {
            let number = |n| wave * jobs::IMAGES / WAVES + n;
            let images = (0..jobs::IMAGES / WAVES).map(|n| ResizeImage { number: number(n) });
            self.client.jobs(images).enqueue().await?;
            let pings = (0..jobs::PINGED / WAVES).map(|n| Ping { host: format!("node-{n}") });
            self.client.jobs(pings).enqueue().await?;
            sleep(BETWEEN_WAVES).await;
        }
        Ok(())
    }

    async fn video(&self) -> Result<(), Error> {
        let video = self.client.job(RenderVideo { file: "holidays.mov".to_owned() }).enqueue().await?;
        self.studio.rendering.notified().await;
        sleep(PATIENCE).await;
        self.client.store().cancel(video.id()).await?;
        Ok(())
    }
}
