//! The confirmation before data is deleted permanently.

use std::io::{self, IsTerminal, Write};

use crate::error::CliError;

/// Asks on the terminal, and fails unless the answer is yes. Without a terminal it fails with
/// `refusal`, which names the flag that skips the question.
pub(crate) fn confirm(question: &str, refusal: &str) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CliError::usage(refusal).into());
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(CliError::failed("nothing was deleted").into()),
    }
}
