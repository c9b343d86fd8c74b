//! Where pages may go.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use url::Host;

use super::address::Scope;
use super::own::is_own;
use super::rule::Rule;

/// How long a name may take to be resolved, and an address to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which addresses the pages of browser jobs may reach: public ones, and what is allowed beside.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    private: bool,
    allowed: Vec<Rule>,
}

/// Where a request wants to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
}

/// Why a request did not get there.
#[derive(Debug)]
pub(crate) enum Unreachable {
    /// It must not.
    Refused(String),
    /// It could not.
    Failed(String),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') && !host.starts_with('[') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

impl Target {
    pub(crate) fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// The host without the brackets that an address of version 6 wears in a URL.
    fn bare(&self) -> &str {
        self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&self.host)
    }
}

impl Reach {
    /// Allows the addresses of this machine and of private networks. Link-local, multicast and reserved ones stay
    /// refused: clouds keep their credentials there, and they must be [allowed](Self::allow) by name.
    pub fn allow_private(mut self) -> Self {
        self.private = true;
        self
    }

    /// Allows what `rule` says.
    pub fn allow(mut self, rule: Rule) -> Self {
        self.allowed.push(rule);
        self
    }

    /// What would be refused of a host that is an address. What a name stands for is known only when it is dialled.
    pub(crate) fn refuses<S: AsRef<str>>(&self, host: &Host<S>, port: Option<u16>) -> Option<String> {
        let address = match host {
            Host::Ipv4(address) => IpAddr::from(*address),
            Host::Ipv6(address) => IpAddr::from(*address),
            Host::Domain(_) => return None,
        };
        let target = Target::new(&address.to_string(), port.unwrap_or_default());
        (!self.allows(&target, address)).then(|| target.to_string())
    }

    /// Connects to a target, if it is allowed: to an address that was checked, and no other.
    pub(crate) async fn dial(&self, target: &Target) -> Result<TcpStream, Unreachable> {
        let addresses = self.resolve(target).await?;
        let mut last = String::from("it has no address");
        for address in addresses {
            match timeout(PATIENCE, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = format!("no answer within {PATIENCE:?}"),
            }
        }
        Err(Unreachable::Failed(format!("{target}: {last}")))
    }

    /// The addresses of a target that are allowed.
    async fn resolve(&self, target: &Target) -> Result<Vec<SocketAddr>, Unreachable> {
        let found = timeout(PATIENCE, lookup_host((target.bare(), target.port))).await;
        let found: Vec<SocketAddr> = match found {
            Ok(Ok(found)) => found.collect(),
            Ok(Err(error)) => return Err(Unreachable::Failed(format!("{target}: {error}"))),
            Err(_) => return Err(Unreachable::Failed(format!("{target}: not resolved within {PATIENCE:?}"))),
        };
        self.choose(target, found)
    }

    fn choose(&self, target: &Target, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Unreachable> {
        let refused = found.first().map(SocketAddr::ip);
        let allowed: Vec<_> = found.into_iter().filter(|address| self.allows(target, address.ip())).collect();
        match refused {
            Some(address) if allowed.is_empty() => Err(Unreachable::Refused(describe(target, address))),
            _ => Ok(allowed),
        }
    }

    fn allows(&self, target: &Target, address: IpAddr) -> bool {
        let scope = Scope::of(address);
        self.allows_as(if is_own(address) { scope.if_own() } else { scope }, target, address)
    }

    fn allows_as(&self, scope: Scope, target: &Target, address: IpAddr) -> bool {
        let port = target.port;
        scope == Scope::Public
            || (scope == Scope::Private && self.private)
            || self
                .allowed
                .iter()
                .any(|rule| rule.allows_host(target.bare(), port) || rule.allows_address(address, port))
    }
}

fn describe(target: &Target, address: IpAddr) -> String {
    if target.bare().parse() == Ok(address) { target.to_string() } else { format!("{target} ({address})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(reach: &Reach, host: &str, found: &[&str]) -> Result<Vec<SocketAddr>, Unreachable> {
        let found = found.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 80)).collect();
        reach.choose(&Target::new(host, 80), found)
    }

    #[test]
    fn of_several_addresses_only_allowed_ones_are_dialled() {
        let addresses = chosen(&Reach::default(), "both.example", &["127.0.0.1", "1.1.1.1"]).unwrap();
        assert_eq!(addresses, ["1.1.1.1:80".parse().unwrap()]);
    }

    #[test]
    fn a_refusal_names_the_host_and_its_address() {
        let Err(Unreachable::Refused(what)) = chosen(&Reach::default(), "rebound.example", &["10.0.0.1"])
        else {
            panic!()
        };
        assert_eq!(what, "rebound.example:80 (10.0.0.1)");
        let Err(Unreachable::Refused(what)) = chosen(&Reach::default(), "[::1]", &["::1"]) else { panic!() };
        assert_eq!(what, "[::1]:80");
    }

    #[test]
    fn private_is_not_link_local() {
        let reach = Reach::default().allow_private();
        assert!(
            chosen(&reach, "a", &["192.168.0.1"]).is_ok()
                && chosen(&reach, "a", &["169.254.169.254"]).is_err()
        );
        let reach = reach.allow("169.254.0.0/16".parse().unwrap());
        assert!(chosen(&reach, "a", &["169.254.169.254"]).is_ok());
    }

    #[test]
    fn a_public_address_of_this_machine_is_refused_unless_private_ones_are_allowed() {
        let (address, target) = ("93.184.216.34".parse().unwrap(), Target::new("me.example", 80));
        let own = Scope::of(address).if_own();
        assert!(Reach::default().allows_as(Scope::of(address), &target, address));
        assert!(!Reach::default().allows_as(own, &target, address));
        assert!(Reach::default().allow_private().allows_as(own, &target, address));
        let by_name = Reach::default().allow("me.example".parse().unwrap());
        assert!(by_name.allows_as(own, &target, address));
    }

    #[test]
    fn an_allowed_name_may_have_any_address() {
        let reach = Reach::default().allow("intranet.example".parse().unwrap());
        assert!(chosen(&reach, "intranet.example", &["10.0.0.1"]).is_ok());
        assert!(chosen(&reach, "other.example", &["10.0.0.1"]).is_err());
    }
}
