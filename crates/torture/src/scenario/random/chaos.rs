//! What happens to the store and its workers, one blow after another.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fastrand::Rng;
use tidemill::store::Cancelled;
use tidemill::{Error, Guarantee, JobId};

use crate::act::{Act, Deed, ONCE};
use crate::crew::Member;
use crate::ledger;
use crate::stage::{PATIENCE, Stage, queue};

/// How many workers there are.
const CREW: usize = 3;

/// How many jobs each runs at once.
const CONCURRENCY: usize = 8;

/// What a job may be tried that is not meant to die: every kill counts as an attempt of all that were running.
const OFTEN: u32 = 10_000;

/// What a job may be tried that is meant to die.
const SELDOM: u32 = 2;

/// A job that was acknowledged.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) job: JobId,
    pub(super) deed: Deed,
    pub(super) delivery: Guarantee,
    pub(super) fate: Fate,
}

/// What was done to a job after it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing: it has to run.
    Free,
    /// It was to be cancelled, and may or may not have run.
    Doubtful,
    /// It was removed then, and must not have started since.
    Removed(u64),
}

/// A worker, and since when it is stopped.
struct Post {
    member: Member,
    stopped_until: Option<Instant>,
}

/// Everything that can go wrong, at random.
pub(super) struct Chaos<'a> {
    stage: &'a Stage,
    random: Rng,
    posts: Vec<Post>,
    made: Vec<Made>,
}

impl<'a> Chaos<'a> {
    pub(super) fn new(stage: &'a Stage, seed: u64) -> Result<Self> {
        let mut chaos = Self { stage, random: Rng::with_seed(seed), posts: Vec::new(), made: Vec::new() };
        for _ in 0..CREW {
            chaos.posts.push(chaos.fill()?);
        }
        Ok(chaos)
    }

    fn fill(&self) -> Result<Post> {
        // The store may be coming back just now; a worker that cannot connect says so and ends.
        let begun = Instant::now();
        loop {
            match self.stage.hire(&self.stage.duty(CONCURRENCY)) {
                Ok(member) => return Ok(Post { member, stopped_until: None }),
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// One blow, and the care that follows it.
    pub(super) async fn strike(&mut self) -> Result<()> {
        match self.random.u32(0..100) {
            0..45 => self.make_one().await?,
            45..60 => self.make_many().await?,
            60..70 => self.make_once().await?,
            70..82 => self.cancel().await?,
            82..88 => self.kill()?,
            88..92 => self.stop()?,
            92..96 => self.pause().await?,
            96..99 => self.take_the_store_away().await?,
            _ => self.stage.place().restart()?,
        }
        self.tend()?;
        tokio::time::sleep(Duration::from_millis(self.random.u64(2..40))).await;
        Ok(())
    }

    fn act(&mut self) -> Act {
        let deed = match self.random.u32(0..100) {
            0..75 => Deed::Finish,
            75..92 => Deed::Fail(self.random.u32(1..4)),
            92..98 => Deed::Die,
            _ => Deed::Abort,
        };
        Act { deed, nap_ms: self.random.u64(0..100) }
    }

    async fn make_one(&mut self) -> Result<()> {
        let act = self.act();
        let delay = Duration::from_millis(self.random.u64(0..1500).saturating_sub(1000));
        let job = self.stage.client.job(act).max_attempts(attempts(act.deed)).delay(delay);
        let made = job.enqueue().await.map(|handle| vec![handle.id().clone()]);
        self.note(made, act.deed, Guarantee::AtLeastOnce)
    }

    async fn make_many(&mut self) -> Result<()> {
        let (act, count) = (self.act(), self.random.usize(1..60));
        let count = if act.deed == Deed::Abort { 1 } else { count };
        let jobs = self.stage.client.jobs((0..count).map(|_| act)).max_attempts(attempts(act.deed));
        let made = jobs.enqueue().await.map_err(Error::from);
        self.note(made, act.deed, Guarantee::AtLeastOnce)
    }

    async fn make_once(&mut self) -> Result<()> {
        let act = Act { deed: Deed::Finish, nap_ms: self.random.u64(0..50) };
        let jobs = self.stage.client.jobs((0..self.random.usize(1..20)).map(|_| act));
        let made = jobs.queue(ONCE).guarantee(Guarantee::AtMostOnce).enqueue().await.map_err(Error::from);
        self.note(made, act.deed, Guarantee::AtMostOnce)
    }

    fn note(&mut self, made: Result<Vec<JobId>, Error>, deed: Deed, delivery: Guarantee) -> Result<()> {
        let made = made.or_else(forgive)?.into_iter();
        self.made.extend(made.map(|job| Made { job, deed, delivery, fate: Fate::Free }));
        Ok(())
    }

    async fn cancel(&mut self) -> Result<()> {
        if self.made.is_empty() {
            return Ok(());
        }
        let made = self.random.usize(..self.made.len());
        let made = &mut self.made[made];
        // Whatever comes of it, from here on nothing is certain.
        made.fate = Fate::Doubtful;
        match self.stage.client.store().cancel(&made.job).await {
            Ok(Cancelled::Removed) => made.fate = Fate::Removed(ledger::now()),
            Ok(_) => {}
            Err(error) => forgive(error)?,
        }
        Ok(())
    }

    fn kill(&mut self) -> Result<()> {
        let post = self.random.usize(..self.posts.len());
        self.posts.swap_remove(post).member.kill()
    }

    fn stop(&mut self) -> Result<()> {
        let post = self.random.usize(..self.posts.len());
        let time = self.stage.lease.mul_f64(self.random.f64() * 2.5);
        let post = &mut self.posts[post];
        if post.stopped_until.is_none() && !post.member.has_ended() {
            post.member.halt()?;
            post.stopped_until = Some(Instant::now() + time);
        }
        Ok(())
    }

    async fn pause(&mut self) -> Result<()> {
        let (store, queue) = (self.stage.client.store(), queue()?);
        store.pause(&queue).await.or_else(forgive)?;
        tokio::time::sleep(Duration::from_millis(self.random.u64(0..300))).await;
        self.resume().await
    }

    /// A queue that stays paused would never be drained.
    async fn resume(&self) -> Result<()> {
        let begun = Instant::now();
        while let Err(error) = self.stage.client.store().resume(&queue()?).await {
            if begun.elapsed() > PATIENCE {
                bail!("the queue cannot be resumed: {}", error.full_message());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn take_the_store_away(&mut self) -> Result<()> {
        let _absence = self.stage.place().pause()?;
        tokio::time::sleep(Duration::from_millis(self.random.u64(100..1500))).await;
        Ok(())
    }

    /// Lets workers go on whose time has come, and replaces those that are gone.
    fn tend(&mut self) -> Result<()> {
        for post in &mut self.posts {
            if post.stopped_until.is_some_and(|until| until <= Instant::now()) {
                post.member.go_on()?;
                post.stopped_until = None;
            }
        }
        self.posts.retain_mut(|post| !post.member.has_ended());
        while self.posts.len() < CREW {
            self.posts.push(self.fill()?);
        }
        Ok(())
    }

    /// Lets everything go on, waits until nothing is left to run, and ends every worker.
    pub(super) async fn calm_down(mut self) -> Result<Vec<Made>> {
        self.resume().await?;
        for post in &mut self.posts {
            post.stopped_until = post.stopped_until.map(|_| Instant::now());
        }
        let begun = Instant::now();
        let mut looks = 0;
        while looks < 2 {
            self.tend()?;
            looks = if self.stage.is_drained().await? { looks + 1 } else { 0 };
            if begun.elapsed() > PATIENCE {
                bail!("not drained: {:?}, {}", self.stage.counts().await?, self.stage.audit()?);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for post in self.posts {
            post.member.dismiss()?;
        }
        Ok(self.made)
    }
}

fn attempts(deed: Deed) -> u32 {
    if deed == Deed::Abort { SELDOM } else { OFTEN }
}

/// An error that an outage explains is what we came for; its effect is unknown and nobody counts on it.
fn forgive<T: Default>(error: Error) -> Result<T> {
    if error.is_transient() {
        return Ok(T::default());
    }
    bail!("the store said: {}", error.full_message())
}
