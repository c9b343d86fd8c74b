//! Keeps browsers ready: starts them, enters them into the fleet, and replaces those that are used, old or dead.
//!
//! One task decides. Starting a browser, watching one and speaking to the store are tasks and futures of their own that
//! tell it what happened, so that none of them holds up the others.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::WorkerStatus;
use tidemill_core::wake::Wake;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::error::AgentError;
use super::handover::Handover;
use super::line::{Line, is_proven};
use super::place::Place;
use super::plan::{Leaving, Seen};
use super::pulse::Pulse;
use super::recipe::Started;
use super::station::Station;
use super::tended::Tended;
use super::trip::{Answer, Trip, within};
use super::watch::{End, Event, Order, start, watch};

/// What closing everything may take in the end. What is left then is the warden's.
const TO_CLOSE: Duration = Duration::from_secs(5);

/// A trip under way.
type Underway = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Keeps browsers ready until it is told to stop.
#[derive(Debug)]
pub(super) struct Keeper {
    station: Station,
    place: Arc<Place>,
    lines: Vec<Line>,
    members: BTreeMap<u64, Tended>,
    /// Those that are gone, and that the store is still to be told of.
    parting: Vec<WorkerKey>,
    /// Those that are gone, and that the store keeps until their successor joins.
    handover: Handover,
    tasks: JoinSet<Event>,
    pulse: Pulse,
    /// The number of the next browser.
    next: u64,
    /// Gives up what is being started.
    stop: CancellationToken,
    /// When it ends whatever still runs. Until that is set it goes on, and from then on it drains.
    end: Option<Instant>,
}

impl Keeper {
    pub(super) fn new(station: Station, place: Arc<Place>, lines: Vec<Line>) -> Self {
        Self {
            station,
            place,
            lines,
            members: BTreeMap::new(),
            parting: Vec::new(),
            handover: Handover::default(),
            tasks: JoinSet::new(),
            pulse: Pulse::new(),
            next: 1,
            stop: CancellationToken::new(),
            end: None,
        }
    }

    /// Runs until `until` completes, then lets sessions end for a while, and closes everything.
    pub(super) async fn run(mut self, until: impl Future) -> Result<(), AgentError> {
        let mut wakes = self.station.store.subscribe();
        let mut trip: Option<Underway> = None;
        tokio::pin!(until);
        loop {
            self.act();
            if trip.is_none() && self.pulse.is_due() {
                trip = Some(Box::pin(self.trip().run(self.station.store.clone())));
            }
            if self.is_over(trip.is_some()) {
                break;
            }
            let alarm = self.alarm(trip.is_some());
            tokio::select! {
                Some(event) = self.tasks.join_next(), if !self.tasks.is_empty() => self.take(event)?,
                answer = underway(&mut trip), if trip.is_some() => {
                    trip = None;
                    self.hear(answer);
                }
                Some(wake) = wakes.next() => self.wake(&wake),
                _ = &mut until, if self.end.is_none() => self.drain(),
                () = sleep_until(alarm) => {}
            }
        }
        self.close(trip).await;
        Ok(())
    }

    /// Does what there is to do, without waiting for anything.
    fn act(&mut self) {
        for index in 0..self.lines.len() {
            let seen: Vec<Seen> = self.of_line(index).map(|(number, one)| one.seen(*number)).collect();
            let plan = self.lines[index].wanted.plan(&seen, self.lines[index].starting);
            if self.end.is_none() && self.lines[index].pause().is_none() {
                (0..plan.start).for_each(|_| self.start(index));
            }
            plan.drain.iter().for_each(|number| self.leave(*number, Leaving::Draining));
            plan.close.iter().for_each(|number| self.leave(*number, Leaving::Closing));
        }
        if self.end.is_some() {
            self.close_empty();
        }
    }

    fn of_line(&self, index: usize) -> impl Iterator<Item = (&u64, &Tended)> {
        self.members.iter().filter(move |(_, one)| one.line == index)
    }

    fn start(&mut self, index: usize) {
        let (number, line) = (self.next, &mut self.lines[index]);
        self.next += 1;
        line.starting += 1;
        debug!("starting {} as number {number}", line.recipe.name());
        let (recipe, stop) = (line.recipe.clone(), self.stop.clone());
        let order = Order { number, line: index, recipe, within: self.station.start_within, stop };
        self.tasks.spawn(start(self.place.clone(), order));
    }

    /// Takes one a step further on its way out.
    fn leave(&mut self, number: u64, how: Leaving) {
        let Some(one) = self.members.get_mut(&number) else { return };
        if how > one.leaving {
            one.leaving = how;
            self.pulse.hurry();
        }
        if how == Leaving::Closing {
            one.close.cancel();
        }
    }

    /// In the end nobody is replaced: who is known to drain and has no session is closed.
    fn close_empty(&mut self) {
        let is_empty = |number: u64, one: &Tended| {
            let is_safe = one.leaving == Leaving::Known || !one.asked;
            is_safe && one.seen(number).active == 0
        };
        let empty = self.members.iter().filter(|(number, one)| is_empty(**number, one));
        let empty: Vec<u64> = empty.map(|(number, _)| *number).collect();
        empty.into_iter().for_each(|number| self.leave(number, Leaving::Closing));
    }

    /// Begins to end: what starts is given up, what is there drains.
    fn drain(&mut self) {
        info!("draining: sessions may end for {:?}", self.station.grace);
        self.end = Some(Instant::now() + self.station.grace);
        self.stop.cancel();
        let numbers: Vec<u64> = self.members.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.leave(number, Leaving::Draining));
    }

    fn is_over(&self, on_trip: bool) -> bool {
        let is_told = self.parting.is_empty() && self.handover.is_empty();
        let is_empty = self.members.is_empty() && is_told && !on_trip;
        self.end.is_some_and(|end| is_empty || Instant::now() >= end)
    }

    /// When there is something to do even if nothing happens.
    fn alarm(&self, on_trip: bool) -> Instant {
        let pauses = self.lines.iter().filter_map(Line::pause);
        let beat = (!on_trip).then(|| self.pulse.next());
        let times = pauses.chain(beat).chain(self.end);
        times.min().unwrap_or_else(|| Instant::now() + TO_CLOSE)
    }

    /// Takes in what became of a browser.
    fn take(&mut self, event: Result<Event, JoinError>) -> Result<(), AgentError> {
        match event.map_err(|error| AgentError::Broken(error.to_string()))? {
            Event::Started { number, line, started } => self.enter((number, line), *started),
            Event::NotStarted { line, why } => self.lines[line].not_started(&why),
            Event::Ended { number, end } => self.bury(number, &end),
        }
        Ok(())
    }

    fn enter(&mut self, (number, index): (u64, usize), started: Started) {
        let line = &mut self.lines[index];
        line.started();
        match self.station.tended(line, (number, index), &started) {
            Ok(mut one) => {
                one.leaving = if self.end.is_some() { Leaving::Draining } else { Leaving::No };
                self.tasks.spawn(watch(number, started, one.close.clone()));
                self.members.insert(number, one);
                self.pulse.hurry();
            }
            // Its processes end with it.
            Err(error) => warn!("{} cannot be entered: {error}", line.recipe.name()),
        }
    }

    fn bury(&mut self, number: u64, end: &End) {
        let Some(one) = self.members.remove(&number) else { return };
        let (lived, line) = (one.since.elapsed(), &mut self.lines[one.line]);
        if let End::Unwanted(why) = end {
            line.crashed(lived);
            warn!("{} {} is dead and will be replaced: {why}", line.recipe.name(), one.id);
        }
        if !one.asked {
            return;
        }
        if matches!(end, End::Told) && self.of_line(one.line).next().is_none() {
            self.handover.keep((number, one.line), one.member());
        } else {
            self.parting.push(one.id);
        }
        self.pulse.hurry();
    }

    /// Parts from those whose successor joins now, or does not come.
    fn hand_over(&mut self) {
        let (members, lines, ends) = (&self.members, &self.lines, self.end.is_some());
        let is_served = |line| members.values().any(|one| one.line == line);
        let over = self.handover.take(|line| ends || lines[line].is_failing() || is_served(line));
        self.parting.extend(over);
    }

    /// What the store is to be told now.
    fn trip(&mut self) -> Trip {
        self.pulse.begin();
        self.hand_over();
        for one in self.members.values_mut() {
            one.about.crashes = self.lines[one.line].crashes;
        }
        let living = self.handover.members().collect();
        let mut trip = Trip { parting: self.parting.clone(), living, ..Trip::default() };
        for (number, one) in &mut self.members {
            if one.asked {
                trip.living.push((*number, one.member()));
            } else if one.leaving == Leaving::No {
                // Who is on the way out before having come in does not come in.
                one.asked = true;
                trip.joining.push((*number, one.member()));
            }
        }
        trip
    }

    /// Takes in what the store said.
    fn hear(&mut self, answer: Answer) {
        self.parting.retain(|id| !answer.parted.contains(id));
        if self.pulse.end(answer.error.as_ref()) {
            self.members.values_mut().for_each(|one| one.tally.doubt());
        }
        for number in &answer.joined {
            if let Some(one) = self.members.get_mut(number) {
                one.joined = true;
            }
        }
        for (number, orders, status) in &answer.heard {
            let Some(one) = self.members.get_mut(number) else { continue };
            one.joined = true;
            one.tally.hear(orders);
            if *status == WorkerStatus::Draining && one.leaving == Leaving::Draining {
                one.leaving = Leaving::Known;
            }
            if is_proven(one.since.elapsed()) {
                self.lines[one.line].proven();
            }
        }
    }

    fn wake(&mut self, wake: &Wake) {
        match wake {
            Wake::Worker(member) if self.members.values().any(|one| one.id == *member) => self.pulse.hurry(),
            // It may have been about one of ours. There may be many of these, so not at once.
            Wake::Everything => self.pulse.hurry_a_little(),
            _ => {}
        }
    }

    /// Closes whatever is left, takes leave of the store, and removes the directory.
    async fn close(mut self, trip: Option<Underway>) {
        self.members.values().for_each(|one| one.close.cancel());
        let closed = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(TO_CLOSE, closed).await.is_err() {
            self.tasks.shutdown().await;
        }
        // What was being said must not arrive after the farewell.
        if let Some(trip) = trip {
            self.hear(trip.await);
        }
        self.parting.extend(self.handover.take(|_| true));
        let left = self.members.values().filter(|one| one.asked).map(|one| one.id.clone());
        let parting: Vec<WorkerKey> = self.parting.iter().cloned().chain(left).collect();
        if !parting.is_empty()
            && let Err(error) = within("part", self.station.store.fleet().part(&parting)).await
        {
            warn!("the fleet will find out by itself that these browsers are gone: {}", error.full_message());
        }
    }
}

async fn underway(trip: &mut Option<Underway>) -> Answer {
    match trip {
        Some(trip) => trip.await,
        None => std::future::pending().await,
    }
}
