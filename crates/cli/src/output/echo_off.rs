//! Suppresses the echo of `^C`. The terminal would print it after the last live line and start a
//! new line, so that clearing the live lines would be off by one.

use std::io;

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// The original settings of the terminal.
#[derive(Debug)]
pub(super) struct EchoOff(Termios);

impl EchoOff {
    /// Turns the echo of control characters off. `None` if it is off already, or if this process
    /// may not change the terminal.
    pub(super) fn begin() -> Option<Self> {
        let original = tcgetattr(io::stderr())
            .ok()
            .filter(|original| original.local_modes.contains(LocalModes::ECHOCTL))?;
        let mut now = original.clone();
        now.local_modes.remove(LocalModes::ECHOCTL);
        set(&now).then_some(Self(original))
    }

    /// Restores the settings.
    pub(super) fn end(&self) {
        set(&self.0);
    }
}

/// Changes the settings only in the foreground: the kernel stops a background process that does so.
fn set(termios: &Termios) -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|group| group == getpgrp())
        && tcsetattr(io::stderr(), OptionalActions::Now, termios).is_ok()
}
