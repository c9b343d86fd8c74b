//! Colours, symbols and widths that the output stream supports.

use std::env;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use tidemill::job::JobState;

/// A colour of the terminal's own palette, so that it fits the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Blue,
    Cyan,
}

impl Colour {
    const fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Blue => "34",
            Self::Cyan => "36",
        }
    }

    /// The colour of a job state.
    pub(crate) const fn for_state(state: JobState) -> Self {
        match state {
            JobState::Blocked | JobState::Scheduled => Self::Blue,
            JobState::Ready => Self::Cyan,
            JobState::Running => Self::Yellow,
            JobState::Done => Self::Green,
            JobState::Dead => Self::Red,
            JobState::Cancelled => Self::Dim,
        }
    }
}

/// What an output stream supports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    colours: bool,
    unicode: bool,
    /// The number of columns, if it is a terminal.
    pub(crate) width: Option<usize>,
}

impl Style {
    pub(crate) fn for_stream<S: IsTerminal + AsFd>(stream: &S) -> Self {
        let terminal = stream.is_terminal();
        let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        let size = || rustix::termios::tcgetwinsize(stream).ok();
        let width =
            terminal.then(size).flatten().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
        Self { colours: terminal && !dumb && !set("NO_COLOR"), unicode: terminal && is_utf8_locale(), width }
    }

    /// Plain text.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colours: false, unicode: false, width: None };

    pub(crate) fn has_colours(&self) -> bool {
        self.colours
    }

    /// Formats `text` in `colour`.
    pub(crate) fn paint(&self, colour: Colour, text: &str) -> String {
        if self.colours { format!("\x1b[{}m{text}\x1b[0m", colour.code()) } else { text.to_owned() }
    }

    /// The Unicode symbol if the terminal supports it, otherwise the ASCII one.
    pub(crate) fn symbol(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }
}

/// Whether the first locale variable that is set selects UTF-8.
fn is_utf8_locale() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_some_and(|locale| locale.to_ascii_uppercase().replace('-', "").contains("UTF8"))
}

/// Stored text in one line, without control characters.
pub(crate) fn printable(text: &str) -> String {
    let line: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_command_the_terminal() {
        assert_eq!(printable(" a\x1b[2J\r\nb\u{9b}31m \t c"), "a [2J b 31m c");
    }

    #[test]
    fn plain_text_stays_plain() {
        assert_eq!(Style::PLAIN.paint(Colour::Red, "dead"), "dead");
        assert_eq!(Style::PLAIN.symbol("✓", "ok"), "ok");
    }
}
