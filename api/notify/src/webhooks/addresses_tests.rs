//! Every range that is no public internet, as addresses, as they are given and as names lead to them.

use super::AddressFault::{Credentials, Fragment, Malformed, NotPublic, Scheme, TooLong};
use super::*;

/// Addresses to which nothing is ever sent: of each range its ends, or one within.
pub(in crate::webhooks) const NEVER: [&str; 46] = [
    "0.0.0.0",
    "0.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "169.254.0.0",
    "169.254.169.254",
    "169.254.255.255",
    "192.0.0.0",
    "192.0.0.255",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.0",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.0",
    "239.255.255.255",
    "240.0.0.0",
    "255.255.255.255",
    "::",
    "::2",
    "::8.8.8.8",
    "::127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::8.8.8.8",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:1ff:ffff::1",
    "2001:db8::1",
    "2002::1",
    "2002:7f00:1::",
    "2002:a00:1::",
    "3fff::1",
    "3fff:fff:ffff::1",
    "5f00::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "feff::1",
    "ff02::1",
    "ff0e::1",
];

/// Addresses that need permission: loopback and private networks, by their ends.
pub(in crate::webhooks) const LOCAL: [&str; 13] = [
    "10.0.0.0",
    "10.255.255.255",
    "127.0.0.0",
    "127.0.0.1",
    "127.255.255.255",
    "172.16.0.0",
    "172.31.255.255",
    "192.168.0.0",
    "192.168.255.255",
    "::1",
    "fc00::",
    "fd12:3456::1",
    "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
];

/// Addresses of the public internet, next to the ends of other ranges.
pub(in crate::webhooks) const PUBLIC: [&str; 22] = [
    "1.0.0.0",
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::1",
    "2003::1",
    "2606:4700::1111",
    "2001:4860:4860::8888",
    "3ffe::1",
];

#[test]
fn only_what_is_allowed_is_connected_to() {
    let rows = [(&NEVER[..], [false, false]), (&LOCAL, [false, true]), (&PUBLIC, [true, true])];
    for (addresses, expected) in rows {
        for text in addresses {
            let address: IpAddr = text.parse().unwrap();
            let included = [Reach::Public, Reach::Local].map(|reach| reach.includes(address));
            assert_eq!(included, expected, "{text}");
        }
    }
}

/// The `https` address of a host that is an address.
fn url_of(text: &str) -> String {
    if text.contains(':') { format!("https://[{text}]/") } else { format!("https://{text}/") }
}

#[test]
fn addresses_of_every_range_are_judged_as_they_are_given() {
    // The parser rewrites some spellings, which are refused for that alone.
    let is_refused = |fault| matches!(fault, Err(NotPublic | Malformed));
    for text in NEVER {
        for reach in [Reach::Public, Reach::Local] {
            assert!(is_refused(check_address(&url_of(text), reach)), "{text} {reach:?}");
        }
    }
    for text in LOCAL {
        assert_eq!(check_address(&url_of(text), Reach::Public), Err(NotPublic), "{text}");
        assert_eq!(check_address(&url_of(text), Reach::Local), Ok(()), "{text}");
        let plain = url_of(text).replace("https", "http");
        assert_eq!(check_address(&plain, Reach::Public), Err(NotPublic), "{text}");
        assert_eq!(check_address(&plain, Reach::Local), Ok(()), "{text}");
    }
    for text in PUBLIC {
        let plain = url_of(text).replace("https", "http");
        for reach in [Reach::Public, Reach::Local] {
            assert_eq!(check_address(&url_of(text), reach), Ok(()), "{text}");
            assert_eq!(check_address(&plain, reach), Err(Scheme), "{text}");
        }
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
        ("ftp://127.0.0.1/", Err(Scheme)),
        ("http://127.0.0.1:8080/", Err(NotPublic)),
        ("http://localhost:8080/", Err(NotPublic)),
        ("https://a.example./", Err(NotPublic)),
        ("https://localhost/", Err(NotPublic)),
        ("https://db.localhost/", Err(NotPublic)),
        ("https://169.254.169.254/latest/meta-data/", Err(NotPublic)),
        ("https://[::ffff:7f00:1]/", Err(NotPublic)),
        // Other spellings of loopback are rewritten by the parser, and recognised.
        ("https://2130706433/", Err(NotPublic)),
        ("https://0x7f.1/", Err(NotPublic)),
        ("https://0177.0.0.1/", Err(NotPublic)),
        ("https://127.1/", Err(NotPublic)),
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
        ("http://10.0.0.1/", Ok(())),
        ("https://localhost/", Ok(())),
        ("https://10.0.0.1/", Ok(())),
        ("http://a.example/", Err(Scheme)),
        ("http://169.254.169.254/", Err(Scheme)),
        ("https://169.254.169.254/", Err(NotPublic)),
        ("https://2130706433/", Err(Malformed)),
    ];
    for (text, expected) in local {
        assert_eq!(check_address(text, Reach::Local), expected, "{text:?}");
    }
}

#[test]
fn what_is_said_of_a_fault_follows_what_is_allowed() {
    for fault in [Scheme, NotPublic] {
        let [public, local] = [Reach::Public, Reach::Local].map(|reach| fault.text(reach));
        assert!(!public.contains("private") && local.contains("private"), "{public} {local}");
    }
    assert!(!Reach::Public.hint().contains("private") && Reach::Local.hint().contains("private"));
}
