//! Group commit: single jobs that arrive while a script is under way go into the next one together, so that many
//! callers cost the server about as much as one.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidemill_core::store::NewJob;
use tidemill_core::{Error, Queue};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::enqueue_plain::{Adder, is_plain};

/// The most jobs in one script, so that nobody waits long for it; as many may be on the desk.
const TOGETHER: usize = 256;

/// In bytes: a larger envelope goes alone, so that a full script is of a size that a server reads without effort.
const LIGHT: usize = 4 << 10;

/// How many scripts are under way at once to one place: while the server runs one, the next is on its way.
const AT_ONCE: usize = 2;

/// A queue's share of one shard: what one script can add to. Each has its own pile, so that a server that does not
/// answer holds up nobody else.
type Place = (u16, Queue);

/// Takes single jobs to its desk and adds them together.
#[derive(Debug)]
pub(crate) struct Clerk {
    desk: mpsc::Sender<Request>,
    /// Ends with the clerk.
    _work: JoinSet<()>,
}

struct Request {
    place: Place,
    job: NewJob,
    answer: oneshot::Sender<Result<(), Error>>,
}

#[derive(Default)]
struct Pile {
    waiting: Vec<Request>,
    under_way: usize,
}

impl Clerk {
    pub(crate) fn new(adder: Arc<Adder>) -> Self {
        let (desk, requests) = mpsc::channel(TOGETHER);
        let mut tasks = JoinSet::new();
        tasks.spawn(work(adder, requests));
        Self { desk, _work: tasks }
    }

    /// Whether a job is better added with others.
    pub(super) fn takes(queue: &Queue, jobs: &[NewJob]) -> bool {
        matches!(jobs, [job] if is_plain(queue, job) && job.envelope.len() <= LIGHT)
    }

    /// Adds a job, together with whatever else there is.
    pub(super) async fn add(&self, place: Place, job: NewJob) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        let closed = || Error::Unavailable { message: "the store is closed".into(), source: None };
        self.desk.send(Request { place, job, answer }).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

async fn work(adder: Arc<Adder>, mut requests: mpsc::Receiver<Request>) {
    let mut piles: HashMap<Place, Pile> = HashMap::new();
    let (mut trips, mut arrived) = (FuturesUnordered::new(), Vec::new());
    loop {
        tokio::select! {
            Some(place) = trips.next(), if !trips.is_empty() => {
                came_back(&mut piles, &place);
                // Lets those who have just been answered come again first.
                tokio::task::yield_now().await;
                while let Ok(request) = requests.try_recv() {
                    arrived.push(request);
                }
            }
            taken = requests.recv_many(&mut arrived, TOGETHER) => if taken == 0 { return },
        }
        for request in arrived.drain(..) {
            piles.entry(request.place.clone()).or_default().waiting.push(request);
        }
        for (place, pile) in &mut piles {
            while pile.under_way < AT_ONCE && !pile.waiting.is_empty() {
                let group: Vec<Request> = pile.waiting.drain(..pile.waiting.len().min(TOGETHER)).collect();
                pile.under_way += 1;
                trips.push(write(&adder, place.clone(), group));
            }
        }
    }
}

/// A place where nothing is to be done is forgotten: there may be very many queues.
fn came_back(piles: &mut HashMap<Place, Pile>, place: &Place) {
    let Some(pile) = piles.get_mut(place) else { return };
    pile.under_way -= 1;
    if pile.under_way == 0 && pile.waiting.is_empty() {
        piles.remove(place);
    }
}

async fn write(adder: &Adder, place: Place, group: Vec<Request>) -> Place {
    let (shard, queue) = &place;
    let jobs = group.iter().map(|request| &request.job);
    let result = adder.add((*shard, queue), jobs).await;
    for Request { job, answer, .. } in group {
        let own = match &result {
            Ok(written) => written.confirmed(&format!("job {} was made", job.id)),
            Err(error) => Err(error.duplicate()),
        };
        // Whoever has stopped waiting does not want the answer.
        let _ = answer.send(own);
    }
    place
}
