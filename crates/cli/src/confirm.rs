//! The question before something is deleted for good.

use std::io::{self, IsTerminal, Write};

use crate::failure::Complaint;

/// Asks a person on the terminal, and fails unless the answer is yes. A program gets `refusal`, which names the flag
/// that skips the question.
pub(crate) fn confirm(question: &str, refusal: &str) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Complaint::wrong_use(refusal).into());
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Complaint::failed("nothing was deleted").into()),
    }
}
