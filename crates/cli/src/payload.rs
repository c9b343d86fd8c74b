//! JSON arguments: inline, `@FILE`, or `-` for stdin.

use std::fs::File;
use std::io::{self, Read};

use serde_json::value::RawValue;

use crate::error::CliError;

/// Reads the value of the flag `--{name}` and checks it before a store is opened.
pub(crate) fn read(name: &str, source: &str, limit: usize) -> anyhow::Result<Box<RawValue>> {
    let unreadable = |from: &str, error: &io::Error| {
        CliError::usage(format!("cannot read the {name} from {from}: {error}"))
    };
    let text = match source.strip_prefix('@') {
        Some(path) => {
            let file = File::open(path).map_err(|error| unreadable(path, &error))?;
            read_bounded(file, limit).map_err(|error| unreadable(path, &error))?
        }
        None if source == "-" => {
            read_bounded(io::stdin().lock(), limit).map_err(|error| unreadable("stdin", &error))?
        }
        None => source.to_owned(),
    };
    if text.trim().len() > limit {
        let message = format!("the {name} has more than {limit} bytes");
        return Err(CliError::usage(message).hint("--max-payload BYTES allows more").into());
    }
    let wrong = |error: serde_json::Error| {
        let quotes = format!("a text needs its quotes, as in --{name} '\"text\"'");
        CliError::usage(format!("the {name} is not JSON: {error}"))
            .hint(format!("{quotes}; a file needs an @, as in @file.json"))
    };
    Ok(RawValue::from_string(text.trim().to_owned()).map_err(wrong)?)
}

/// Reads at most as much as is needed to notice that it is too long.
fn read_bounded(from: impl Read, limit: usize) -> io::Result<String> {
    let mut text = String::new();
    // White space around the value does not count.
    from.take((limit as u64).saturating_add(4096)).read_to_string(&mut text)?;
    Ok(text)
}
