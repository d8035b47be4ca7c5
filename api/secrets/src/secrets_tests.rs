//! Sealed, looked up, verified: each use under a key of its own, with answers known from elsewhere.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::*;
use crate::issuing::SystemRandom;

fn secrets() -> Secrets {
    Secrets::from_root(std::array::from_fn(|index| u8::try_from(index).unwrap()))
}

fn pan() -> Pan {
    Pan::parse(b"4111111111111111").unwrap()
}

const CARD: CardId = CardId(Uuid::from_bytes([9; 16]));
const OTHER_CARD: CardId = CardId(Uuid::from_bytes([8; 16]));

/// The expected values were made with Python's hmac and hashlib and pyca/cryptography.
#[test]
fn known_answers_stay_the_same() {
    let secrets = secrets();
    assert_eq!(secrets.pan_hash(&pan()), PanHash(0x22b1_0e8c_7a05_9a94));
    assert_eq!(&secrets.cvv(&pan()), b"268");
    assert_eq!(secrets.pin_verifier(&pan(), b"1234"), PinVerifier(0x32bc_75ce_51d1_b9e4));
    assert_eq!(hex(&secrets.id_key()), "ffdefc051ad4599572570b137f24fa52");
    let sealed = secrets.seal_pan_with([7; 12], &pan(), CARD).unwrap();
    let expected = "667281be93bdb935283f4fd698ed892ab935d5d97a8278c4c0341b99797fe746";
    assert_eq!(hex(&sealed.0), format!("01{}{expected}", "07".repeat(12)));
}

#[test]
fn a_sealed_number_opens_only_whole_and_for_its_card_and_key() {
    let secrets = secrets();
    let sealed = secrets.seal_pan(&pan(), CARD).unwrap();
    assert_ne!(sealed, secrets.seal_pan(&pan(), CARD).unwrap(), "a nonce was used twice");
    let opened = secrets.open_pan(&sealed, CARD).unwrap();
    assert_eq!(opened.digits(), pan().digits());
    assert!(secrets.open_pan(&sealed, OTHER_CARD).is_none());
    assert!(Secrets::from_root([1; 32]).open_pan(&sealed, CARD).is_none());
    for position in 0..sealed.0.len() {
        let mut changed = sealed.clone();
        changed.0[position] ^= 1;
        assert!(secrets.open_pan(&changed, CARD).is_none(), "byte {position}");
        let cut = SealedPan(sealed.0[..position].to_vec());
        assert!(secrets.open_pan(&cut, CARD).is_none(), "cut at {position}");
    }
}

#[test]
fn what_opens_a_link_is_bound_to_its_link_and_its_use() {
    use SealedSecret::{LinkKey, LinkPassphrase};
    let (secrets, link) = (secrets(), SharedLinkId(Uuid::from_bytes([9; 16])));
    let other = SharedLinkId(Uuid::from_bytes([8; 16]));
    let sealed = secrets.seal(LinkKey(link), b"secret").unwrap();
    assert_eq!(secrets.open(LinkKey(link), &sealed).unwrap().as_slice(), b"secret");
    assert!(secrets.open(LinkKey(other), &sealed).is_none());
    assert!(secrets.open(LinkPassphrase(link), &sealed).is_none());
    assert!(Secrets::from_root([1; 32]).open(LinkKey(link), &sealed).is_none());
    assert!(secrets.open(LinkKey(link), &sealed[..sealed.len() - 1]).is_none());
    assert!(secrets.open(LinkKey(link), &[]).is_none());
    let sealed = SealedPan(sealed);
    assert!(secrets.open_pan(&sealed, CardId(link.0)).is_none(), "one key for two uses");
}

#[test]
fn a_zone_key_is_bound_to_its_door_and_use() {
    let (secrets, of) = (secrets(), ExchangedKeyId::of("iso8583", "M3"));
    let sealed = secrets.seal_zone_key(b"sixteen bytes ..", of, &mut SystemRandom).unwrap();
    assert_eq!(
        secrets.open(SealedSecret::ZoneKey(of), &sealed).unwrap().as_slice(),
        b"sixteen bytes .."
    );
    assert!(
        secrets.open(SealedSecret::ZoneKey(ExchangedKeyId::of("iso8583", "P0")), &sealed).is_none()
    );
    assert!(
        secrets.open(SealedSecret::ZoneKey(ExchangedKeyId::of("other", "M3")), &sealed).is_none()
    );
    assert!(Secrets::from_root([1; 32]).open(SealedSecret::ZoneKey(of), &sealed).is_none());
    assert!(secrets.open(SealedSecret::ZoneKey(of), &sealed[..sealed.len() - 1]).is_none());
    assert!(!sealed.windows(7).any(|part| part == b"sixteen"));
}

#[test]
fn links_are_found_by_half_an_hmac() {
    let secrets = secrets();
    let (key, mut other) = ([7; 32], [7; 32]);
    other[31] = 8;
    let digest = secrets.link_digest(&key);
    assert_eq!(digest, secrets.link_digest(&key));
    assert_ne!(digest, secrets.link_digest(&other));
    let whole = secrets.link_lookup.long_tag(&[&key]);
    let bytes: Vec<u8> = whole.iter().flat_map(|word| word.to_be_bytes()).collect();
    assert_eq!(digest, bytes[..16]);
}

#[test]
fn pins_are_bound_to_their_card() {
    let secrets = secrets();
    let other = Pan::parse(b"5500000000000004").unwrap();
    let verifier = secrets.pin_verifier(&pan(), b"1234");
    assert_eq!(verifier, secrets.pin_verifier(&pan(), b"1234"));
    assert_ne!(verifier, secrets.pin_verifier(&pan(), b"1235"));
    assert_ne!(verifier, secrets.pin_verifier(&other, b"1234"));
    assert_ne!(verifier, PinVerifier::default());
}

#[test]
fn message_hashes_tell_absent_from_empty_and_parts_and_purposes_apart() {
    let secrets = secrets();
    let hash = |purpose, parts: &[Option<&[u8]>]| {
        let mut hasher = secrets.message_hasher(purpose);
        parts.iter().for_each(|part| {
            hasher.part(*part);
        });
        hasher.finish128()
    };
    use HashPurpose::{Duplicate, Trace};
    let base = hash(Duplicate, &[Some(b"ab"), Some(b"c")]);
    assert_eq!(base, hash(Duplicate, &[Some(b"ab"), Some(b"c")]));
    assert_ne!(base, hash(Duplicate, &[Some(b"a"), Some(b"bc")]));
    assert_ne!(base, hash(Trace, &[Some(b"ab"), Some(b"c")]));
    assert_ne!(hash(Duplicate, &[None]), hash(Duplicate, &[Some(b"")]));
}

#[test]
fn message_hashes_are_siphash_of_the_delimited_parts_however_long() {
    let secrets = secrets();
    for lens in [&[0][..], &[3, 5], &[236, 1], &[237, 1], &[250, 300, 7], &[1_000], &[40; 30]] {
        let mut plain = SipHasher13::new_with_key(&secrets.fingerprint_key);
        let mut gathered = secrets.message_hasher(HashPurpose::Content);
        plain.write(&[HashPurpose::Content as u8]);
        for (at, len) in lens.iter().enumerate() {
            let part = vec![u8::try_from(at).unwrap(); *len];
            gathered.part(Some(&part)).part(None);
            plain.write(&[1]);
            plain.write(&(part.len() as u64).to_le_bytes());
            plain.write(&part);
            plain.write(&[0]);
        }
        assert_eq!(gathered.finish128(), plain.finish128().as_u128(), "{lens:?}");
        assert_eq!(gathered.finish64(), plain.finish128().as_u64().0, "{lens:?}");
    }
}

#[test]
fn no_secret_is_printed() {
    assert_eq!(format!("{:?}", secrets()), "Secrets(..)");
    assert!(!format!("{:?}", secrets().seal_pan(&pan(), CARD).unwrap()).contains("4111"));
}

#[test]
fn token_digests_are_sha_256() {
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(hex(&token_digest("abc")), expected);
    assert!(digests_equal(&token_digest("abc"), &token_digest("abc")));
    assert!(!digests_equal(&token_digest("abc"), &token_digest("abd")));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
