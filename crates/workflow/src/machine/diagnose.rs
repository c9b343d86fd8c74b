//! Where in the code a run halted.

use std::cell::{Cell, RefCell};
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;
use std::thread;

use tidemill_core::workflow::{Entry, RunId};

use super::executor::message;
use super::{Advance, Machine};
use crate::halt::Halt;
use crate::program::Program;

/// Finds out where the code is that panicked or awaits something foreign, and adds that to the halt.
///
/// The run is replayed once more from its journal, whose first entry is the one after position `base`, on a thread of its own and outside of any runtime: there, timers and sockets of
/// the usual runtimes panic where they are made, with the place in the workflow's code. Takes as long as the replay,
/// and blocks; for the report of a blocked run, not for every day.
pub fn diagnose(halt: Halt, program: &Program, run: &RunId, base: u64, entries: &[Entry]) -> Halt {
    if !matches!(halt, Halt::Foreign(_) | Halt::Panicked { .. }) {
        return halt;
    }
    let (program, run, entries) = (program.clone(), run.clone(), entries.to_vec());
    let repeat = move || {
        notice_panics();
        WATCHED.set(true);
        let mut machine = Machine::new(&program, run).base(base);
        let _ = machine.replay(entries).and_then(|()| machine.advance([])).map(|_: Advance| ());
        PLACE.take()
    };
    let place = thread::Builder::new().name("tidemill-diagnose".into()).spawn(repeat);
    match place.map(thread::JoinHandle::join) {
        Ok(Ok(Some(place))) => with_place(halt, place),
        _ => halt,
    }
}

fn with_place(mut halt: Halt, place: String) -> Halt {
    match &mut halt {
        Halt::Foreign(foreign) => foreign.place = Some(place),
        Halt::Panicked { message, .. } => *message = place,
        _ => {}
    }
    halt
}

thread_local! {
    /// This thread only finds out where something panics.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Only a hook is told where a panic is. This one stands before whatever hook there was, for all but our threads.
fn notice_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| if WATCHED.get() { note(panic) } else { before(panic) }));
    });
}

fn note(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    // The first panic is the cause.
    PLACE.with_borrow_mut(|noted| {
        noted.get_or_insert_with(|| format!("{}{place}", message(panic.payload())));
    });
}
