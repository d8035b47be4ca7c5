//! Where webhooks may be sent: judged when an address is given, and again for every address that its
//! name leads to, just before the connection is made to that very address.
//!
//! Whoever registers an address chooses where this process connects to, so everything that is not
//! plainly the public internet is refused. Addresses of IPv6 that carry one of IPv4 are refused as a
//! whole: what they lead to is decided elsewhere.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// The longest address. Units: bytes.
pub const ADDRESS_BYTES_MAX: usize = 1_000;

/// How far webhooks may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To the public internet.
    Public,
    /// To this machine, too: the switch is being tried out.
    Local,
}

impl Reach {
    /// That of a switch whose site is at `app_url`: who sees it at an address of this machine sits
    /// before it.
    #[must_use]
    pub fn of_site(app_url: &str) -> Self {
        let url = Url::parse(app_url).ok();
        let host = url.as_ref().and_then(Url::host);
        if host.is_some_and(|host| is_this_machine(&host)) { Self::Local } else { Self::Public }
    }

    /// Whether a connection may be made to this address.
    #[must_use]
    pub const fn includes(self, address: IpAddr) -> bool {
        match address {
            _ if address.is_loopback() => matches!(self, Self::Local),
            IpAddr::V4(address) => is_public_v4(address),
            IpAddr::V6(address) => is_public_v6(address),
        }
    }
}

/// What is wrong with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressFault {
    /// Longer than `ADDRESS_BYTES_MAX`.
    TooLong,
    /// No address, or not written as a browser would.
    Malformed,
    /// Neither `https` nor, where that is allowed, `http` to this machine.
    Scheme,
    /// It has a name or password before its host.
    Credentials,
    /// It has a part behind `#`.
    Fragment,
    /// It leads to a network that is not public.
    NotPublic,
}

impl AddressFault {
    /// The word that programs know it by.
    #[must_use]
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
}

impl fmt::Display for AddressFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TooLong => "must have at most 1000 characters",
            Self::Malformed => {
                "must be a whole address as a browser shows it, such as \
                 `https://hooks.example.com/cards`"
            }
            Self::Scheme => "must begin with `https://`",
            Self::Credentials => "must have no name or password before its host",
            Self::Fragment => "must have no part behind `#`",
            Self::NotPublic => "must lead to the public internet",
        })
    }
}

/// Judges an address that webhooks are to be sent to.
/// Errors: what is wrong with it.
pub fn check_address(text: &str, reach: Reach) -> Result<(), AddressFault> {
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
    let host = url.host().ok_or(AddressFault::Malformed)?;
    let is_secure = url.scheme() == "https";
    let is_local = url.scheme() == "http" && reach == Reach::Local && is_this_machine(&host);
    if !is_secure && !is_local {
        return Err(AddressFault::Scheme);
    }
    if !may_lead_on(&host, reach) {
        return Err(AddressFault::NotPublic);
    }
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

fn is_this_machine(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// Names are judged by what they lead to when it is known; those of this machine are known already.
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

/// Of IPv6 only what is given out for global use, without what carries addresses of IPv4 within.
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
mod tests {
    use super::AddressFault::{Credentials, Fragment, Malformed, NotPublic, Scheme, TooLong};
    use super::*;

    #[test]
    fn only_the_public_internet_is_connected_to() {
        let refused = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "::ffff:8.8.8.8",
            "::ffff:127.0.0.1",
            "::8.8.8.8",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "100::1",
        ];
        for text in refused {
            let address: IpAddr = text.parse().unwrap();
            for reach in [Reach::Public, Reach::Local] {
                assert!(!reach.includes(address), "{text} {reach:?}");
            }
        }
        for text in ["127.0.0.1", "127.255.255.254", "::1"] {
            let address: IpAddr = text.parse().unwrap();
            assert!(!Reach::Public.includes(address) && Reach::Local.includes(address), "{text}");
        }
        let taken = [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.0",
            "192.167.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
        ];
        for text in taken {
            assert!(Reach::Public.includes(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn addresses_are_judged_as_they_are_given() {
        let longest = format!("https://a.example/{}", "x".repeat(ADDRESS_BYTES_MAX - 18));
        let rows = [
            ("https://hooks.example.com", Ok(())),
            ("https://hooks.example.com/cards?tenant=7", Ok(())),
            ("https://hooks.example.com:8443/", Ok(())),
            ("https://93.184.216.34/", Ok(())),
            (longest.as_str(), Ok(())),
            ("", Err(Malformed)),
            ("hooks.example.com", Err(Malformed)),
            ("https://", Err(Malformed)),
            ("https://a.example/\r\nx: y", Err(Malformed)),
            ("https://a.example/a b", Err(Malformed)),
            ("HTTPS://a.example/", Err(Malformed)),
            ("https://a.example\\b", Err(Malformed)),
            ("http://a.example/", Err(Scheme)),
            ("ftp://a.example/", Err(Scheme)),
            ("http://127.0.0.1:8080/", Err(Scheme)),
            ("https://a.example./", Err(NotPublic)),
            ("https://localhost/", Err(NotPublic)),
            ("https://db.localhost/", Err(NotPublic)),
            ("https://127.0.0.1/", Err(NotPublic)),
            ("https://169.254.169.254/latest/meta-data/", Err(NotPublic)),
            ("https://[::1]/", Err(NotPublic)),
            ("https://[::ffff:7f00:1]/", Err(NotPublic)),
            // Other spellings of loopback are rewritten by the parser, and seen for what they are.
            ("https://2130706433/", Err(NotPublic)),
            ("https://0x7f.1/", Err(NotPublic)),
            ("https://ada:secret@a.example/", Err(Credentials)),
            ("https://@a.example/", Err(Credentials)),
            ("https://a.example/#x", Err(Fragment)),
        ];
        for (text, expected) in rows {
            assert_eq!(check_address(text, Reach::Public), expected, "{text:?}");
        }
        assert_eq!(check_address(&format!("{longest}x"), Reach::Public), Err(TooLong));
        let local = [
            ("http://127.0.0.1:9000/hook", Ok(())),
            ("http://localhost:9000/hook", Ok(())),
            ("http://[::1]:9000/hook", Ok(())),
            ("https://localhost/", Ok(())),
            ("http://a.example/", Err(Scheme)),
            ("http://10.0.0.1/", Err(Scheme)),
            ("https://10.0.0.1/", Err(NotPublic)),
        ];
        for (text, expected) in local {
            assert_eq!(check_address(text, Reach::Local), expected, "{text:?}");
        }
    }

    #[test]
    fn a_site_on_this_machine_is_one_that_is_tried_out() {
        for (text, reach) in [
            ("http://127.0.0.1:8080", Reach::Local),
            ("http://localhost:8080", Reach::Local),
            ("https://cards.example.com", Reach::Public),
            ("https://localhost.example.com", Reach::Public),
            ("nothing", Reach::Public),
        ] {
            assert_eq!(Reach::of_site(text), reach, "{text}");
        }
    }
}
