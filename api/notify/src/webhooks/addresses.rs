//! The addresses to which webhooks may be sent: judged when an address is given, and again for
//! every address that its name leads to, just before the connection is made to that very address.
//!
//! An owner who registers an address chooses a target of this process's connections, so everything
//! that is not plainly the public internet is refused. This machine and private networks are
//! refused, too, unless the operator allows them. IPv6 addresses that carry an IPv4 address are
//! refused as a whole: others decide where they lead.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// The longest address. Units: bytes.
pub const ADDRESS_BYTES_MAX: usize = 1_000;

/// How far webhooks may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The public internet.
    Public,
    /// This machine and private networks, too. Only the operator allows it, since companies could
    /// look around there.
    Local,
}

impl Reach {
    /// The reach that `--allow-local-webhooks` gives.
    pub const fn new(allows_local: bool) -> Self {
        if allows_local { Self::Local } else { Self::Public }
    }

    /// Whether a connection may be made to this address.
    pub const fn includes(self, address: IpAddr) -> bool {
        is_public(address) || (matches!(self, Self::Local) && is_local(address))
    }

    /// The rule for addresses, as a hint beside the field.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Public => {
                "An https:// URL that can be reached from the internet. Redirects are not followed."
            }
            Self::Local => {
                "Begins with https://, or with http:// on this machine or a private network. \
                 Redirects are not followed."
            }
        }
    }
}

/// A fault of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressFault {
    /// Longer than `ADDRESS_BYTES_MAX`.
    TooLong,
    /// No address, or not written as a browser would.
    Malformed,
    /// Neither `https` nor `http` to this machine or a private network.
    Scheme,
    /// It has a name or password before its host.
    Credentials,
    /// It has a part behind `#`.
    Fragment,
    /// It leads where webhooks may not go.
    NotPublic,
}

impl AddressFault {
    /// The word that programs know it by.
    pub const fn code(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "not_an_address",
            Self::Scheme => "not_https",
            Self::Credentials => "has_credentials",
            Self::Fragment => "has_fragment",
            Self::NotPublic => "not_public",
        }
    }

    /// The error text of an address that `reach` does not allow.
    pub const fn text(self, reach: Reach) -> &'static str {
        match (self, reach) {
            (Self::TooLong, _) => "must have at most 1000 characters",
            (Self::Malformed, _) => {
                "must be a whole address as a browser shows it, such as \
                 `https://hooks.example.com/cards`"
            }
            (Self::Scheme, Reach::Public) => "must begin with `https://`",
            (Self::Scheme, Reach::Local) => {
                "must begin with `https://`, or with `http://` and an address of this machine or of a \
                 private network"
            }
            (Self::Credentials, _) => "must have no name or password before its host",
            (Self::Fragment, _) => "must have no part behind `#`",
            (Self::NotPublic, Reach::Public) => {
                "must lead to the public internet: `--allow-local-webhooks` is not set"
            }
            (Self::NotPublic, Reach::Local) => {
                "must lead to the public internet, to this machine or to a private network"
            }
        }
    }
}

/// Judges an address that webhooks are to be sent to.
/// Errors: the fault of the address.
pub fn check_address(text: &str, reach: Reach) -> Result<(), AddressFault> {
    check_leading(text, |url| {
        let host = url.host().ok_or(AddressFault::Malformed)?;
        let is_taken = match url.scheme() {
            "https" => true,
            "http" => is_near(&host),
            _ => false,
        };
        if !is_taken {
            return Err(AddressFault::Scheme);
        }
        if may_lead_on(&host, reach) { Ok(()) } else { Err(AddressFault::NotPublic) }
    })
}

/// Judges an address that others give; `judge_target` says whether it may lead where it does.
/// Errors: the fault of the address.
pub fn check_leading(
    text: &str,
    judge_target: impl FnOnce(&Url) -> Result<(), AddressFault>,
) -> Result<(), AddressFault> {
    if text.len() > ADDRESS_BYTES_MAX {
        return Err(AddressFault::TooLong);
    }
    let url = Url::parse(text).map_err(|_| AddressFault::Malformed)?;
    if text.contains('#') {
        return Err(AddressFault::Fragment);
    }
    if has_user(text) || !url.username().is_empty() || url.password().is_some() {
        return Err(AddressFault::Credentials);
    }
    judge_target(&url)?;
    // Browsers end a bare host with a slash, people do not.
    let is_plain = url.as_str() == text || url.as_str().strip_suffix('/') == Some(text);
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_plain && is_visible { Ok(()) } else { Err(AddressFault::Malformed) }
}

/// A name before the host, be it empty, which is not shown as one.
fn has_user(text: &str) -> bool {
    let authority = text.split_once("://").map_or("", |(_, rest)| rest);
    authority.split(['/', '?']).next().is_some_and(|authority| authority.contains('@'))
}

/// Whether a host, as it is written, is this machine or of a private network: requests to it need
/// no TLS.
fn is_near(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => is_local(IpAddr::V4(*address)),
        Host::Ipv6(address) => is_local(IpAddr::V6(*address)),
    }
}

/// Names are judged by the addresses that they lead to, once these are known; names of this machine
/// are known already.
fn may_lead_on(host: &Host<&str>, reach: Reach) -> bool {
    match host {
        Host::Domain(name) => {
            let is_local = *name == "localhost" || name.ends_with(".localhost");
            !name.ends_with('.') && (!is_local || reach == Reach::Local)
        }
        Host::Ipv4(address) => reach.includes(IpAddr::V4(*address)),
        Host::Ipv6(address) => reach.includes(IpAddr::V6(*address)),
    }
}

/// Loopback and private use, and nothing else that is not public: link-local addresses are where clouds
/// hand out credentials. Source: RFC 1918, RFC 4193.
const fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local(),
    }
}

const fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Source: IANA IPv4 Special-Purpose Address Registry.
const fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            | (224..=255, _, _)
    )
}

/// The IPv6 ranges given out for global use, without those that carry IPv4 addresses within.
/// Source: IANA IPv6 Special-Purpose Address Registry.
const fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_global = first >> 13 == 0b001;
    // Teredo, benchmarking, documentation, 6to4 (RFC 4380, 5180, 3849, 9637, 3056).
    let is_special = matches!(
        (first, second),
        (0x2001, 0..=0x01ff | 0x0db8) | (0x2002, _) | (0x3fff, 0..=0x0fff)
    );
    is_global && !is_special
}

#[cfg(test)]
#[path = "addresses_tests.rs"]
pub(super) mod tests;
