//! Keeps `^C` off the screen: the terminal would write it after the last changing line, where it begins a new
//! one, and what is then cleared is off by one.

use std::io;

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// The terminal's settings as they were.
#[derive(Debug)]
pub(super) struct Hush(Termios);

impl Hush {
    /// Asks the terminal not to show control characters; `None` if it shows none, or is not ours to ask.
    pub(super) fn begin() -> Option<Self> {
        let was = tcgetattr(io::stderr()).ok().filter(|was| was.local_modes.contains(LocalModes::ECHOCTL))?;
        let mut now = was.clone();
        now.local_modes.remove(LocalModes::ECHOCTL);
        set(&now).then_some(Self(was))
    }

    /// Puts the settings back.
    pub(super) fn end(&self) {
        set(&self.0);
    }
}

/// A process in the background is stopped if it touches the terminal's settings, so it does not.
fn set(settings: &Termios) -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|group| group == getpgrp())
        && tcsetattr(io::stderr(), OptionalActions::Now, settings).is_ok()
}
