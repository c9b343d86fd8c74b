//! Waiters that register, park, look, time out and leave, and events, in any order. At the end no
//! waiter is parked that has not looked at the last event of its job.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use futures_util::future::{LocalBoxFuture, select};
use proptest::prelude::*;

use super::*;

const JOBS: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum WaiterStep {
    Come {
        job: usize,
    },
    /// A waiter is polled, woken or not.
    Poll {
        who: usize,
    },
    /// Its poll delay is over, and its notification future is dropped.
    Tire {
        who: usize,
    },
    /// Its look, which began earlier, gets the answer.
    Seen {
        who: usize,
    },
    /// It is dropped at any stage.
    Go {
        who: usize,
    },
    End {
        job: usize,
    },
    Everything,
    Noise,
}

fn step() -> impl Strategy<Value = WaiterStep> {
    let (who, job) = (0..5_usize, 0..JOBS.len());
    prop_oneof![
        2 => job.clone().prop_map(|job| WaiterStep::Come { job }),
        6 => who.clone().prop_map(|who| WaiterStep::Poll { who }),
        4 => who.clone().prop_map(|who| WaiterStep::Tire { who }),
        4 => who.clone().prop_map(|who| WaiterStep::Seen { who }),
        2 => who.prop_map(|who| WaiterStep::Go { who }),
        4 => job.prop_map(|job| WaiterStep::End { job }),
        1 => Just(WaiterStep::Everything),
        2 => Just(WaiterStep::Noise),
    ]
}

/// A condition to wait for. It wakes nobody that does not wait at it, because that would hide a
/// missing wake-up.
#[derive(Default)]
struct Gate(Cell<bool>, RefCell<Option<Waker>>);

impl Gate {
    fn open(&self) {
        if let Some(waker) = self.1.take() {
            self.0.set(true);
            waker.wake();
        }
    }

    fn leave(&self) {
        self.0.set(false);
        self.1.take();
    }

    async fn pass(&self) {
        let wait = |cx: &mut Context<'_>| {
            self.1.replace(Some(cx.waker().clone()));
            if self.0.get() { Poll::Ready(()) } else { Poll::Pending }
        };
        poll_fn(wait).await;
    }
}

/// How many events each job has had.
type Truth = Rc<RefCell<[usize; JOBS.len()]>>;

#[derive(Default)]
struct Life {
    tired: Gate,
    answered: Gate,
    looks: Cell<bool>,
    /// Whether its looks are answered at once.
    prompt: Cell<bool>,
    /// What its last look saw: the state at its start.
    seen: Cell<usize>,
}

struct Person {
    job: usize,
    life: Rc<Life>,
    task: LocalBoxFuture<'static, ()>,
    runnable: Arc<Flag>,
}

struct Flag(AtomicBool);

impl Call for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Person {
    fn new(mut waiter: CompletionWaiter, job: usize, truth: Truth) -> Self {
        let life = Rc::new(Life::default());
        let lived = life.clone();
        let task = async move {
            loop {
                lived.seen.set(truth.borrow()[job]);
                lived.looks.set(true);
                if !lived.prompt.get() {
                    lived.answered.pass().await;
                    lived.answered.leave();
                }
                lived.looks.set(false);
                // In this order, a waiter that times out leaves without having read.
                select(Box::pin(lived.tired.pass()), waiter.notified()).await;
                lived.tired.leave();
            }
        };
        Self { job, life, task: Box::pin(task), runnable: Arc::new(Flag(AtomicBool::new(true))) }
    }

    fn poll(&mut self) {
        self.runnable.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(self.runnable.clone());
        assert!(self.task.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    }

    fn tire(&mut self) {
        self.life.tired.open();
        self.poll();
    }

    /// Polls it if it was woken, and answers its looks; returns whether it was woken.
    fn run(&mut self) -> bool {
        let called = self.runnable.0.load(Ordering::SeqCst);
        if called {
            self.life.prompt.set(true);
            self.poll();
            self.life.prompt.set(false);
        }
        called
    }
}

struct World {
    completions: Arc<CompletionWaiters>,
    listeners: Arc<Subscribers<Wake>>,
    truth: Truth,
    people: Vec<Person>,
}

impl World {
    fn new(courteous: bool) -> Self {
        let listeners = Arc::new(Subscribers::default());
        let heard = listeners.clone();
        let completions = CompletionWaiters::new(move || -> WakeStream {
            if courteous {
                Box::pin(YieldingStream(heard.subscribe(), false))
            } else {
                Box::pin(heard.subscribe())
            }
        });
        Self { completions, listeners, truth: Truth::default(), people: Vec::new() }
    }

    fn take(&mut self, step: WaiterStep) {
        match step {
            WaiterStep::Come { job: which } => {
                let waiter = self.completions.wait_for(job(JOBS[which]));
                self.people.push(Person::new(waiter, which, self.truth.clone()));
            }
            WaiterStep::Poll { who } => self.with(who, Person::poll),
            WaiterStep::Tire { who } => self.with(who, Person::tire),
            WaiterStep::Seen { who } => self.with(who, |person| person.life.answered.open()),
            WaiterStep::Go { who } if who < self.people.len() => drop(self.people.swap_remove(who)),
            WaiterStep::Go { .. } => {}
            WaiterStep::End { job } => self.happen(&end(JOBS[job]), |which| which == job),
            WaiterStep::Everything => self.happen(&Wake::Everything, |_| true),
            WaiterStep::Noise => self.listeners.publish(&noise()),
        }
    }

    fn with(&mut self, who: usize, act: impl FnOnce(&mut Person)) {
        if let Some(person) = self.people.get_mut(who) {
            act(person);
        }
    }

    fn happen(&self, wake: &Wake, to: impl Fn(usize) -> bool) {
        for (which, count) in self.truth.borrow_mut().iter_mut().enumerate() {
            *count += usize::from(to(which));
        }
        self.listeners.publish(wake);
    }

    /// Runs all woken waiters until none is woken. Looks get no answer meanwhile, because these
    /// waiters are not the ones to read for others.
    fn rest(&mut self) -> Result<(), TestCaseError> {
        let mut waiting =
            self.people.iter_mut().filter(|person| !person.life.looks.get()).collect::<Vec<_>>();
        let mut rounds = 0;
        while waiting.iter_mut().fold(false, |ran, person| person.run() | ran) {
            rounds += 1;
            prop_assert!(rounds < 1_000, "they keep one another awake");
        }
        for Person { job, life, .. } in waiting {
            prop_assert_eq!(life.seen.get(), self.truth.borrow()[*job], "of job {}", JOBS[*job]);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn nobody_sleeps_through_what_happened_to_its_job(
        courteous: bool,
        scenes in prop::collection::vec(prop::collection::vec(step(), 1..8), 1..12),
    ) {
        let mut world = World::new(courteous);
        for scene in scenes {
            scene.into_iter().for_each(|step| world.take(step));
            world.rest()?;
        }
        world.people.clear();
        prop_assert!(world.completions.lock().wakes.is_none(), "somebody left the stream open");
    }
}
