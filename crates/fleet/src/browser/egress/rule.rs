//! Egress rules: exceptions for a host, an address or a network, optionally for one port.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// A destination that is allowed in addition to public ones: `intranet.example`,
/// `*.intranet.example`, `10.1.2.3`, `10.1.0.0/16` or `fd00::/8`. All but a network may have a
/// port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRule {
    target: RuleTarget,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RuleTarget {
    /// This name, whatever its address.
    Host(String),
    /// Every name with this suffix, dot included.
    Subdomains(String),
    Network(IpNet),
}

/// A text that is not an [`EgressRule`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host, address or network: try intranet.example, *.example, 10.1.2.3:8080 or 10.0.0.0/8")]
pub struct InvalidRule(String);

impl EgressRule {
    /// Whether it allows this name, whatever its address.
    pub(super) fn allows_host(&self, host: &str, port: u16) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.matches_port(port)
            && match &self.target {
                RuleTarget::Host(name) => *name == host,
                RuleTarget::Subdomains(suffix) => host.ends_with(suffix.as_str()),
                RuleTarget::Network(_) => false,
            }
    }

    /// Whether it allows this address.
    pub(super) fn allows_address(&self, address: IpAddr, port: u16) -> bool {
        self.matches_port(port)
            && matches!(self.target, RuleTarget::Network(network) if network.contains(&address.to_canonical()))
    }

    fn matches_port(&self, port: u16) -> bool {
        self.port.is_none_or(|only| only == port)
    }
}

impl FromStr for EgressRule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let invalid = || InvalidRule(text.chars().take(64).collect());
        if text.contains('/') {
            let network = text.parse().map_err(|_| invalid())?;
            return Ok(Self { target: RuleTarget::Network(network), port: None });
        }
        if let Ok(address) = text.parse() {
            return Ok(Self { target: single_address(address), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| invalid())?)),
            None => (text, None),
        };
        Ok(Self { target: parse_target(host).ok_or_else(invalid)?, port })
    }
}

fn single_address(address: IpAddr) -> RuleTarget {
    RuleTarget::Network(address.into())
}

fn parse_target(host: &str) -> Option<RuleTarget> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse() {
        return Some(single_address(address));
    }
    let (name, is_wildcard) = host.strip_prefix("*.").map_or((host, false), |name| (name, true));
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let name = (!name.is_empty() && is_name(name)).then(|| name.to_ascii_lowercase())?;
    Some(if is_wildcard { RuleTarget::Subdomains(format!(".{name}")) } else { RuleTarget::Host(name) })
}

impl fmt::Display for EgressRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            RuleTarget::Host(name) => f.write_str(name)?,
            RuleTarget::Subdomains(suffix) => write!(f, "*{suffix}")?,
            RuleTarget::Network(IpNet::V6(network)) if self.port.is_some() => {
                write!(f, "[{}]/{}", network.addr(), network.prefix_len())?
            }
            RuleTarget::Network(network) => write!(f, "{network}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> EgressRule {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_is_itself_and_a_star_is_what_lies_below() {
        assert!(rule("Intranet.example").allows_host("intranet.EXAMPLE.", 80));
        assert!(!rule("intranet.example").allows_host("a.intranet.example", 80));
        assert!(rule("*.example").allows_host("a.b.example", 80));
        assert!(
            !rule("*.example").allows_host("badexample", 80) && !rule("*.example").allows_host("example", 80)
        );
        assert!(!rule("intranet.example:8080").allows_host("intranet.example", 80));
    }

    #[test]
    fn an_address_or_a_network_is_matched_by_address() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(rule("10.0.0.0/8").allows_address(address("10.9.9.9"), 80));
        assert!(rule("10.0.0.0/8").allows_address(address("::ffff:10.9.9.9"), 80));
        assert!(!rule("10.0.0.0/8").allows_address(address("11.0.0.1"), 80));
        assert!(rule("127.0.0.1:81").allows_address(address("127.0.0.1"), 81));
        assert!(!rule("127.0.0.1:81").allows_address(address("127.0.0.1"), 80));
        assert!(
            rule("[::1]:81").allows_address(address("::1"), 81)
                && rule("::1").allows_address(address("::1"), 1)
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "a b", "10.0.0.0/33", "::/129", "x/8", "host:port", "*.", "http://a"] {
            assert!(text.parse::<EgressRule>().is_err(), "{text:?}");
        }
    }
}
