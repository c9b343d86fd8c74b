//! The egress policy: which addresses pages may reach.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use url::Host;

use super::address::AddressScope;
use super::local_address::is_local;
use super::rule::EgressRule;

/// How long a name may take to resolve, and an address to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which addresses the pages of browser jobs may reach: public ones, and what rules allow in
/// addition.
#[derive(Debug, Clone, Default)]
pub struct EgressPolicy {
    allow_private: bool,
    rules: Vec<EgressRule>,
}

/// The destination of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EgressTarget {
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
}

/// Why a request did not reach its destination.
#[derive(Debug)]
pub(crate) enum EgressError {
    /// The policy refuses it.
    Refused(String),
    /// The network failed.
    Failed(String),
}

impl fmt::Display for EgressTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') && !host.starts_with('[') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

impl EgressTarget {
    pub(crate) fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// The host without the brackets of an IPv6 address.
    fn host_without_brackets(&self) -> &str {
        self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&self.host)
    }
}

impl EgressPolicy {
    /// Allows this machine and private networks. Link-local, multicast and reserved addresses stay
    /// refused, because clouds serve credentials there; a rule must [allow](Self::allow) them by
    /// name.
    pub fn allow_private(mut self) -> Self {
        self.allow_private = true;
        self
    }

    /// Allows what `rule` matches.
    pub fn allow(mut self, rule: EgressRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// The refused target if the host is an address. A name is checked when it is dialled.
    pub(crate) fn find_refused<S: AsRef<str>>(&self, host: &Host<S>, port: Option<u16>) -> Option<String> {
        let address = match host {
            Host::Ipv4(address) => IpAddr::from(*address),
            Host::Ipv6(address) => IpAddr::from(*address),
            Host::Domain(_) => return None,
        };
        let target = EgressTarget::new(&address.to_string(), port.unwrap_or_default());
        (!self.allows(&target, address)).then(|| target.to_string())
    }

    /// Connects to a target if it is allowed, only to addresses that were checked.
    pub(crate) async fn dial(&self, target: &EgressTarget) -> Result<TcpStream, EgressError> {
        let addresses = self.resolve(target).await?;
        let mut last_error = String::from("it has no address");
        for address in addresses {
            match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last_error = error.to_string(),
                Err(_) => last_error = format!("no answer within {CONNECT_TIMEOUT:?}"),
            }
        }
        Err(EgressError::Failed(format!("{target}: {last_error}")))
    }

    /// The allowed addresses of a target.
    async fn resolve(&self, target: &EgressTarget) -> Result<Vec<SocketAddr>, EgressError> {
        let resolved =
            timeout(CONNECT_TIMEOUT, lookup_host((target.host_without_brackets(), target.port))).await;
        let resolved: Vec<SocketAddr> = match resolved {
            Ok(Ok(resolved)) => resolved.collect(),
            Ok(Err(error)) => return Err(EgressError::Failed(format!("{target}: {error}"))),
            Err(_) => {
                return Err(EgressError::Failed(format!(
                    "{target}: not resolved within {CONNECT_TIMEOUT:?}"
                )));
            }
        };
        self.filter_allowed(target, resolved)
    }

    fn filter_allowed(
        &self,
        target: &EgressTarget,
        resolved: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, EgressError> {
        let refused = resolved.first().map(SocketAddr::ip);
        let allowed: Vec<_> =
            resolved.into_iter().filter(|address| self.allows(target, address.ip())).collect();
        match refused {
            Some(address) if allowed.is_empty() => Err(EgressError::Refused(describe(target, address))),
            _ => Ok(allowed),
        }
    }

    fn allows(&self, target: &EgressTarget, address: IpAddr) -> bool {
        let scope = AddressScope::from_address(address);
        self.allows_scope(if is_local(address) { scope.as_local() } else { scope }, target, address)
    }

    fn allows_scope(&self, scope: AddressScope, target: &EgressTarget, address: IpAddr) -> bool {
        let port = target.port;
        scope == AddressScope::Public
            || (scope == AddressScope::Private && self.allow_private)
            || self.rules.iter().any(|rule| {
                rule.allows_host(target.host_without_brackets(), port) || rule.allows_address(address, port)
            })
    }
}

fn describe(target: &EgressTarget, address: IpAddr) -> String {
    if target.host_without_brackets().parse() == Ok(address) {
        target.to_string()
    } else {
        format!("{target} ({address})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(policy: &EgressPolicy, host: &str, resolved: &[&str]) -> Result<Vec<SocketAddr>, EgressError> {
        let resolved = resolved.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 80)).collect();
        policy.filter_allowed(&EgressTarget::new(host, 80), resolved)
    }

    #[test]
    fn of_several_addresses_only_allowed_ones_are_dialled() {
        let addresses = chosen(&EgressPolicy::default(), "both.example", &["127.0.0.1", "1.1.1.1"]).unwrap();
        assert_eq!(addresses, ["1.1.1.1:80".parse().unwrap()]);
    }

    #[test]
    fn a_refusal_names_the_host_and_its_address() {
        let Err(EgressError::Refused(what)) =
            chosen(&EgressPolicy::default(), "rebound.example", &["10.0.0.1"])
        else {
            panic!()
        };
        assert_eq!(what, "rebound.example:80 (10.0.0.1)");
        let Err(EgressError::Refused(what)) = chosen(&EgressPolicy::default(), "[::1]", &["::1"]) else {
            panic!()
        };
        assert_eq!(what, "[::1]:80");
    }

    #[test]
    fn private_is_not_link_local() {
        let policy = EgressPolicy::default().allow_private();
        assert!(
            chosen(&policy, "a", &["192.168.0.1"]).is_ok()
                && chosen(&policy, "a", &["169.254.169.254"]).is_err()
        );
        let policy = policy.allow("169.254.0.0/16".parse().unwrap());
        assert!(chosen(&policy, "a", &["169.254.169.254"]).is_ok());
    }

    #[test]
    fn a_public_address_of_this_machine_is_refused_unless_private_ones_are_allowed() {
        let (address, target) = ("93.184.216.34".parse().unwrap(), EgressTarget::new("me.example", 80));
        let own = AddressScope::from_address(address).as_local();
        assert!(EgressPolicy::default().allows_scope(AddressScope::from_address(address), &target, address));
        assert!(!EgressPolicy::default().allows_scope(own, &target, address));
        assert!(EgressPolicy::default().allow_private().allows_scope(own, &target, address));
        let by_name = EgressPolicy::default().allow("me.example".parse().unwrap());
        assert!(by_name.allows_scope(own, &target, address));
    }

    #[test]
    fn an_allowed_name_may_have_any_address() {
        let policy = EgressPolicy::default().allow("intranet.example".parse().unwrap());
        assert!(chosen(&policy, "intranet.example", &["10.0.0.1"]).is_ok());
        assert!(chosen(&policy, "other.example", &["10.0.0.1"]).is_err());
    }
}
