//! SPDX licence expressions: `(MIT OR Apache-2.0) AND Unicode-3.0`.

use anyhow::{Result, bail};

/// Whether the allowed licences satisfy an expression. `/` is an old way to write OR.
pub(crate) fn is_allowed(expression: &str, allowed: &[String]) -> Result<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, allowed };
    let result = parser.any()?;
    match parser.words {
        [] => Ok(result),
        [word, ..] => bail!("unexpected `{word}` in the licence `{expression}`"),
    }
}

/// Recursive descent: OR binds weaker than AND, AND weaker than WITH.
struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<bool> {
        let mut result = self.all()?;
        while self.take("OR") {
            result |= self.all()?;
        }
        Ok(result)
    }

    fn all(&mut self) -> Result<bool> {
        let mut result = self.one()?;
        while self.take("AND") {
            result &= self.one()?;
        }
        Ok(result)
    }

    fn one(&mut self) -> Result<bool> {
        if self.take("(") {
            let result = self.any()?;
            if !self.take(")") {
                bail!("a licence expression lacks `)`");
            }
            return Ok(result);
        }
        let name = self.next()?;
        let name = if self.take("WITH") { format!("{name} WITH {}", self.next()?) } else { name.to_owned() };
        Ok(self.allowed.contains(&name))
    }

    fn next(&mut self) -> Result<&'a str> {
        let Some((first, rest)) = self.words.split_first() else { bail!("a licence expression is cut off") };
        self.words = rest;
        Ok(first)
    }

    /// Skips the next word if it is this one.
    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.words = &self.words[1..];
        }
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_satisfied_by_allowed_licences() {
        let allowed = ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        let check = |expression| is_allowed(expression, &allowed).unwrap();
        assert!(check("MIT"));
        assert!(check("GPL-3.0 OR MIT"));
        assert!(check("MIT/Apache-2.0"));
        assert!(check("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(check("Apache-2.0 WITH LLVM-exception"));
        assert!(!check("Apache-2.0"));
        assert!(!check("MIT AND GPL-3.0"));
        assert!(check("MIT OR GPL-3.0 AND GPL-2.0"));
        assert!(is_allowed("(MIT", &allowed).is_err());
        assert!(is_allowed("MIT MIT", &allowed).is_err());
        assert!(is_allowed("MIT AND", &allowed).is_err());
    }
}
