//! The same with several threads, where one reads while another parks, registers or leaves.

use std::sync::mpsc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::*;

const THREADS: usize = 4;
const ROUNDS: usize = 2_000;

/// Long enough that only a waiter that is never woken exceeds it.
const LOST_WAKE_TIMEOUT: Duration = Duration::from_secs(120);

struct Sleeper(Thread);

impl Call for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks until the waiter is notified.
fn wait_notified(waiter: &mut CompletionWaiter) {
    let waker = Waker::from(Arc::new(Sleeper(thread::current())));
    let (mut news, since) = (waiter.notified(), Instant::now());
    while news.poll_unpin(&mut Context::from_waker(&waker)).is_pending() {
        thread::park_timeout(LOST_WAKE_TIMEOUT);
        assert!(since.elapsed() < LOST_WAKE_TIMEOUT, "nobody was woken");
    }
}

/// Waits for one job after the other, each of which another thread ends; now and then parks and
/// leaves.
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
        wait_notified(&mut waiter);
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
    assert!(completions.lock().wakes.is_none());
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
                    wait_notified(&mut waiter);
                }
            });
        }
        drop(ends);
        ended.into_iter().for_each(|end| listeners.publish(&end));
    });
    assert!(completions.lock().wakes.is_none());
}
