//! A payload as it is given on the command line: JSON, `@FILE`, or `-` for stdin.

use std::fs::File;
use std::io::{self, Read};

use anyhow::Context as _;
use serde_json::value::RawValue;

use crate::failure::Complaint;

/// Reads the payload and checks it before any store is opened.
pub(crate) fn read(source: &str, limit: usize) -> anyhow::Result<Box<RawValue>> {
    let text = match source.strip_prefix('@') {
        Some(path) => {
            let file = File::open(path).map_err(|error| unreadable(path, &error))?;
            bounded(file, limit).map_err(|error| unreadable(path, &error))?
        }
        None if source == "-" => {
            bounded(io::stdin().lock(), limit).context("cannot read the payload from stdin")?
        }
        None => source.to_owned(),
    };
    if text.trim().len() > limit {
        let message = format!("the payload has more than {limit} bytes");
        return Err(Complaint::wrong_use(message).hint("--max-payload BYTES allows more").into());
    }
    let wrong = |error: serde_json::Error| {
        let complaint = Complaint::wrong_use(format!("the payload is not JSON: {error}"));
        complaint
            .hint("a text needs its quotes, as in --payload '\"text\"'; a file needs an @, as in @file.json")
    };
    Ok(RawValue::from_string(text.trim().to_owned()).map_err(wrong)?)
}

fn unreadable(path: &str, error: &io::Error) -> Complaint {
    Complaint::wrong_use(format!("cannot read the payload from {path}: {error}"))
}

/// Reads no more than it takes to see that it is too much.
fn bounded(from: impl Read, limit: usize) -> io::Result<String> {
    let mut text = String::new();
    // Room for white space around it, which does not count.
    from.take(limit as u64 + 4096).read_to_string(&mut text)?;
    Ok(text)
}
