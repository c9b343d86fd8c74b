//! Access tokens and their scopes.

use std::fmt;
use std::str::FromStr;

use subtle::ConstantTimeEq;

/// The permission that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Opening sessions and reconnecting to them.
    Session,
    /// Reading sessions, workers and metrics.
    Read,
    /// Closing sessions of others; includes the other scopes.
    Admin,
}

impl Scope {
    const ALL: [Self; 3] = [Self::Session, Self::Read, Self::Admin];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A secret without `Debug` or `Display`, so that it cannot get into a log.
#[derive(Clone)]
struct Secret(Box<str>);

/// A named secret and the scopes it grants.
#[derive(Clone)]
pub struct AccessToken {
    name: String,
    secret: Secret,
    scopes: Vec<Scope>,
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// A text that is not a token. The text is not shown: it may contain the secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a token: {0}; write it as NAME=SECRET or NAME=SECRET:SCOPE,SCOPE with scopes out of session, read, admin"
)]
pub struct InvalidToken(&'static str);

impl FromStr for AccessToken {
    type Err = InvalidToken;

    /// Parses `NAME=SECRET[:SCOPES]`. Without scopes it grants all.
    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let (name, rest) = text.split_once('=').ok_or(InvalidToken("it has no name"))?;
        // A secret contains no colon, so a misspelt scope cannot become part of a secret that
        // grants everything.
        let (secret, scopes) =
            rest.split_once(':').map_or((rest, None), |(secret, scopes)| (secret, Some(scopes)));
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !plain(name) || name.len() > 64 {
            return Err(InvalidToken("its name is not 1 to 64 printable characters"));
        }
        if !plain(secret) {
            return Err(InvalidToken("its secret is empty or not printable"));
        }
        let scopes = scopes.map_or_else(|| Ok(Scope::ALL.to_vec()), parse_scopes)?;
        Ok(Self { name: name.to_owned(), secret: Secret(secret.into()), scopes })
    }
}

fn parse_scopes(text: &str) -> Result<Vec<Scope>, InvalidToken> {
    let scope = |word: &str| Scope::ALL.into_iter().find(|scope| scope.as_str() == word);
    text.split(',').map(|word| scope(word.trim()).ok_or(InvalidToken("a scope is unknown"))).collect()
}

impl AccessToken {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it grants `scope`.
    pub fn grants(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }
}

/// The configured tokens.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessTokens(Vec<AccessToken>);

impl AccessTokens {
    pub(crate) fn add(&mut self, token: AccessToken) {
        self.0.push(token);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The token with this secret. Compares every token in constant time, so the duration reveals
    /// nothing.
    pub(crate) fn find(&self, secret: &str) -> Option<&AccessToken> {
        let mut found = None;
        for token in &self.0 {
            if bool::from(token.secret.0.as_bytes().ct_eq(secret.as_bytes())) {
                found = Some(token);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_what_it_says_or_everything() {
        let opens = |text: &str| Scope::ALL.map(|scope| text.parse::<AccessToken>().unwrap().grants(scope));
        assert_eq!(opens("ci=s3cret"), [true; 3]);
        assert_eq!(opens("ci=s3cret:session"), [true, false, false]);
        assert_eq!(opens("ci=s3cret:session,read"), [true, true, false]);
        assert_eq!(opens("ci=s3cret:admin"), [true; 3]);
    }

    #[test]
    fn what_is_no_token_is_refused_and_not_shown() {
        for text in ["", "hunter2", "=hunter2", "a=", "a=:read", "a=hunter2:", "a=hunter2:reed", "a=hun ter2"]
        {
            let error = text.parse::<AccessToken>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(!format!("{:?}", "a=hunter2".parse::<AccessToken>().unwrap()).contains("hunter2"));
    }

    #[test]
    fn a_token_is_found_by_its_whole_secret() {
        let mut tokens = AccessTokens::default();
        tokens.add("a=one".parse().unwrap());
        tokens.add("b=two".parse().unwrap());
        assert_eq!(tokens.find("two").map(AccessToken::name), Some("b"));
        assert!(["", "tw", "two ", "twoo"].into_iter().all(|secret| tokens.find(secret).is_none()));
    }
}
