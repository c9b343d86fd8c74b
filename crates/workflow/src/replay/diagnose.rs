//! `diagnose`: finds the location in the code where a run is blocked.

use std::cell::{Cell, RefCell};
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;
use std::thread;

use tidemill_core::workflow::{Entry, RunId};

use super::executor::panic_message;
use super::{Advance, Replayer};
use crate::blocked::Blocked;
use crate::program::Program;

/// Finds where the code panicked or awaits a foreign future, and adds the location to `blocked`.
///
/// Replays the journal again on its own thread, outside any runtime. There, timers and sockets of
/// the usual runtimes panic where they are created, which reveals the location. The journal's first
/// entry is the one after position `base`. Blocks for the duration of a replay, so call it only to
/// report a blocked run.
pub fn diagnose(blocked: Blocked, program: &Program, run: &RunId, base: u64, entries: &[Entry]) -> Blocked {
    if !matches!(blocked, Blocked::ForeignAwait(_) | Blocked::Panicked { .. }) {
        return blocked;
    }
    let (program, run, entries) = (program.clone(), run.clone(), entries.to_vec());
    let repeat = move || {
        install_panic_hook();
        CAPTURING.set(true);
        let mut replayer = Replayer::new(&program, run).base(base);
        let _ = replayer.replay(entries).and_then(|()| replayer.advance([])).map(|_: Advance| ());
        PANIC_LOCATION.take()
    };
    let location = thread::Builder::new().name("tidemill-diagnose".into()).spawn(repeat);
    match location.map(thread::JoinHandle::join) {
        Ok(Ok(Some(location))) => with_location(blocked, location),
        _ => blocked,
    }
}

fn with_location(mut blocked: Blocked, location: String) -> Blocked {
    match &mut blocked {
        Blocked::ForeignAwait(foreign) => foreign.location = Some(location),
        Blocked::Panicked { message, .. } => *message = location,
        _ => {}
    }
    blocked
}

thread_local! {
    /// Whether this thread captures panics instead of reporting them.
    static CAPTURING: Cell<bool> = const { Cell::new(false) };
    static PANIC_LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a panic hook, because only a hook receives a panic's location. On all other threads it
/// calls the previous hook.
fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| if CAPTURING.get() { record_panic(panic) } else { before(panic) }));
    });
}

fn record_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map_or_else(String::new, |location| format!(" at {location}"));
    // The first panic is the cause.
    PANIC_LOCATION.with_borrow_mut(|recorded| {
        recorded.get_or_insert_with(|| format!("{}{location}", panic_message(panic.payload())));
    });
}
