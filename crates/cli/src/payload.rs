//! JSON as it is given on the command line: itself, `@FILE`, or `-` for stdin.

use std::fs::File;
use std::io::{self, Read};

use serde_json::value::RawValue;

use crate::failure::Complaint;

/// Reads what the flag `--{name}` was given and checks it before any store is opened.
pub(crate) fn read(name: &str, source: &str, limit: usize) -> anyhow::Result<Box<RawValue>> {
    let unreadable = |from: &str, error: &io::Error| {
        Complaint::wrong_use(format!("cannot read the {name} from {from}: {error}"))
    };
    let text = match source.strip_prefix('@') {
        Some(path) => {
            let file = File::open(path).map_err(|error| unreadable(path, &error))?;
            bounded(file, limit).map_err(|error| unreadable(path, &error))?
        }
        None if source == "-" => {
            bounded(io::stdin().lock(), limit).map_err(|error| unreadable("stdin", &error))?
        }
        None => source.to_owned(),
    };
    if text.trim().len() > limit {
        let message = format!("the {name} has more than {limit} bytes");
        return Err(Complaint::wrong_use(message).hint("--max-payload BYTES allows more").into());
    }
    let wrong = |error: serde_json::Error| {
        let quotes = format!("a text needs its quotes, as in --{name} '\"text\"'");
        Complaint::wrong_use(format!("the {name} is not JSON: {error}"))
            .hint(format!("{quotes}; a file needs an @, as in @file.json"))
    };
    Ok(RawValue::from_string(text.trim().to_owned()).map_err(wrong)?)
}

/// Reads no more than it takes to see that it is too much.
fn bounded(from: impl Read, limit: usize) -> io::Result<String> {
    let mut text = String::new();
    // Room for white space around it, which does not count.
    from.take((limit as u64).saturating_add(4096)).read_to_string(&mut text)?;
    Ok(text)
}
