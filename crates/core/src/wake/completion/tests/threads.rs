//! The same from several threads at once, where one reads while another lies down, comes or goes.

use std::sync::mpsc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::*;

const THREADS: usize = 4;
const ROUNDS: usize = 2_000;

/// So long that only somebody who sleeps for ever sleeps through it.
const FOR_EVER: Duration = Duration::from_secs(120);

struct Sleeper(Thread);

impl Call for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks until there is news.
fn await_news(waiter: &mut CompletionWaiter) {
    let waker = Waker::from(Arc::new(Sleeper(thread::current())));
    let (mut news, since) = (waiter.notified(), Instant::now());
    while news.poll_unpin(&mut Context::from_waker(&waker)).is_pending() {
        thread::park_timeout(FOR_EVER);
        assert!(since.elapsed() < FOR_EVER, "nobody was woken");
    }
}

/// Waits for one job after the other, each of which somebody ends; now and then lies down and goes again.
fn live(completions: &Arc<CompletionWaiters>, name: usize, ends: &mpsc::Sender<Wake>) {
    let mut company = completions.wait_for(job("company"));
    for round in 0..ROUNDS {
        let id = format!("{name}-{round}");
        let mut waiter = completions.wait_for(job(&id));
        if round % 3 == 0 {
            assert_eq!(company.notified().now_or_never(), None);
        }
        if round % 5 == 0 {
            company = completions.wait_for(job("company"));
        }
        ends.send(end(&id)).unwrap();
        await_news(&mut waiter);
    }
}

#[test]
fn everybody_is_woken_however_the_threads_meet() {
    let (completions, listeners, _) = completions();
    let (ends, ended) = mpsc::channel();
    thread::scope(|scope| {
        for name in 0..THREADS {
            let (completions, ends) = (completions.clone(), ends.clone());
            scope.spawn(move || live(&completions, name, &ends));
        }
        drop(ends);
        for end in ended {
            listeners.publish(&noise());
            listeners.publish(&end);
        }
    });
    assert!(completions.desk().wakes.is_none());
}

#[test]
fn a_stream_that_is_opened_and_closed_all_the_time_loses_nothing() {
    let (completions, listeners, _) = completions();
    let (ends, ended) = mpsc::channel();
    thread::scope(|scope| {
        for name in 0..2 {
            let (completions, ends) = (completions.clone(), ends.clone());
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let id = format!("{name}-{round}");
                    let mut waiter = completions.wait_for(job(&id));
                    ends.send(end(&id)).unwrap();
                    await_news(&mut waiter);
                }
            });
        }
        drop(ends);
        ended.into_iter().for_each(|end| listeners.publish(&end));
    });
    assert!(completions.desk().wakes.is_none());
}
