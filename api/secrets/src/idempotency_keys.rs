//! Names and seals of what is kept under idempotency keys, each with a secret key of its own.
//!
//! | label | bytes | use |
//! |---|---|---|
//! | `idempotency name` | 64 | HMAC-SHA-256 of company, share, caller and key, or of a form |
//! | `idempotency seal` | 32 | ChaCha20-Poly1305 over answers, their name as associated data |
//!
//! The name of a key: 8 bytes of a hash of company and share, then 24 bytes of one of company, caller and
//! key. So the keys of a share can be counted, and nothing tells whose they are. Tokens with a scope
//! that needs approval have a share of their own: a smaller scope does not use up their keys. So have the
//! forms of administrators, and those of others. A form is not named as any key of a client is.
//!
//! A sealed answer is as of [`seal`].

use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::domain::ids::{AccessTokenId, CompanyId};
use cardswitch_engine::domain::keyed_answer::{KeyedAnswer, OWNER_BYTES};
use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::KeyInit as _;
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::{SealError, derived, seal};

/// The secret keys behind idempotency keys.
#[derive(Clone)]
pub struct IdempotencyKeys {
    names: Hmac<Sha256>,
    seal: ChaCha20Poly1305,
}

/// The share of a company's keys that a form counts among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormShare {
    /// Forms of administrators.
    Administrators,
    /// Forms of other members.
    Others,
}

/// The key and the request that an answer is sealed for: it opens for no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerName {
    /// The name of the key.
    pub key: [u8; 32],
    /// The hash of the request.
    pub request: [u8; 32],
    /// The status of the answer.
    pub status: u16,
}

impl AnswerName {
    fn bytes(&self) -> Vec<u8> {
        [&self.key[..], &self.request, &self.status.to_le_bytes()].concat()
    }
}

impl IdempotencyKeys {
    /// Derives the keys from the master's.
    pub fn derive(source: &Hkdf<Sha256>) -> Self {
        Self {
            names: Hmac::new(&(*derived::<64>(source, b"idempotency name")).into()),
            seal: ChaCha20Poly1305::new(&(*derived::<32>(source, b"idempotency seal")).into()),
        }
    }

    /// The name under which the key of a caller, with the scope of its token, is kept.
    pub fn name(
        &self,
        company: CompanyId,
        (caller, scope): (AccessTokenId, AccessScope),
        key: &[u8],
    ) -> [u8; 32] {
        let share = u8::from(scope.needs_approval());
        let whole = self.hash(&[b"key", company.0.as_bytes(), caller.0.as_bytes(), key]);
        self.in_share(whole, company, share)
    }

    /// The name under which a form is kept that came with the value `bond`. The request's hash is a part
    /// of it, since a page may have several forms.
    pub fn name_of_form(
        &self,
        (company, share): (CompanyId, FormShare),
        bond: &str,
        request: &[u8; 32],
    ) -> [u8; 32] {
        let share = match share {
            FormShare::Others => 2,
            FormShare::Administrators => 3,
        };
        let whole = self.hash(&[b"form", company.0.as_bytes(), request, bond.as_bytes()]);
        self.in_share(whole, company, share)
    }

    /// The name with the beginning that all names of a company's share have.
    fn in_share(&self, mut name: [u8; 32], company: CompanyId, share: u8) -> [u8; 32] {
        let owner = self.hash(&[b"owner", company.0.as_bytes(), &[share]]);
        name[..OWNER_BYTES].copy_from_slice(&owner[..OWNER_BYTES]);
        name
    }

    /// The hash that a repeat shares with the first request: of method, target (path with query)
    /// and body. It is keyed, since a body may hold a PIN, which a bare hash would not hide.
    pub fn request_hash(&self, method: &str, target: &str, body: &[u8]) -> [u8; 32] {
        let lengths = [method, target].map(|text| (text.len() as u64).to_le_bytes());
        let head = [method, target].map(str::as_bytes);
        self.hash(&[b"request", &lengths[0], &lengths[1], head[0], head[1], body])
    }

    /// Only the last part has no fixed length, so that no two lists of parts are one message.
    fn hash(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.names.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }

    /// Seals an answer for keeping, under a nonce of its own.
    /// Errors: no randomness.
    pub fn seal(&self, name: &AnswerName, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        seal::seal(&self.seal, seal::fresh_nonce()?, plain, &name.bytes())
    }

    /// Opens what was sealed for this row; none where it was sealed for another or elsewhere.
    pub fn open(&self, row: &KeyedAnswer, sealed: &[u8]) -> Option<Vec<u8>> {
        let name = AnswerName { key: row.key, request: row.request, status: row.status };
        seal::open(&self.seal, sealed, &name.bytes()).map(|mut plain| std::mem::take(&mut *plain))
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::ids::Timestamp;
    use cardswitch_engine::domain::keyed_answer::{KeyedContent, owner_of};
    use uuid::Uuid;

    use super::*;
    use crate::Secrets;

    fn keys(master: u8) -> IdempotencyKeys {
        Secrets::from_root([master; 32]).idempotency.clone()
    }

    fn company(number: u128) -> CompanyId {
        CompanyId(Uuid::from_u128(number))
    }

    fn token(number: u128) -> AccessTokenId {
        AccessTokenId(Uuid::from_u128(number))
    }

    #[test]
    fn a_name_is_of_company_caller_and_key() {
        let keys_here = keys(1);
        let none = AccessScope::default();
        let books = AccessScope { accountant: true, ..none };
        let admin = AccessScope { admin: true, ..none };
        let name = keys_here.name(company(1), (token(1), none), b"k");
        assert_eq!(name, keys_here.name(company(1), (token(1), none), b"k"));
        let others = [
            keys_here.name(company(2), (token(1), none), b"k"),
            keys_here.name(company(1), (token(2), none), b"k"),
            keys_here.name(company(1), (token(2), books), b"k"),
            keys_here.name(company(1), (token(2), admin), b"k"),
            keys_here.name(company(1), (token(1), none), b"K"),
            keys(2).name(company(1), (token(1), none), b"k"),
        ];
        assert!(others.iter().all(|other| *other != name));
        let owners = others.map(|other| owner_of(&other) == owner_of(&name));
        assert_eq!(owners, [false, true, true, false, true, false]);
    }

    #[test]
    fn a_form_is_of_company_bond_and_request_and_no_clients_key() {
        let keys = keys(1);
        let own = (company(1), FormShare::Others);
        let name = keys.name_of_form(own, "bond", &[1; 32]);
        assert_eq!(name, keys.name_of_form(own, "bond", &[1; 32]));
        let client = |scope| keys.name(company(1), (token(1), scope), b"bond");
        let others = [
            keys.name_of_form((company(2), FormShare::Others), "bond", &[1; 32]),
            keys.name_of_form((company(1), FormShare::Administrators), "bond", &[1; 32]),
            client(AccessScope::default()),
            client(AccessScope { admin: true, ..AccessScope::default() }),
            keys.name_of_form(own, "other", &[1; 32]),
            keys.name_of_form(own, "bond", &[2; 32]),
        ];
        assert!(others.iter().all(|other| *other != name));
        let owners = others.map(|other| owner_of(&other) == owner_of(&name));
        assert_eq!(owners, [false, false, false, false, true, true]);
    }

    #[test]
    fn a_sealed_answer_opens_only_whole_and_for_its_row() {
        let keys_here = keys(1);
        let name = AnswerName { key: [1; 32], request: [2; 32], status: 201 };
        let sealed = keys_here.seal(&name, b"the answer").unwrap();
        let row = KeyedAnswer {
            key: name.key,
            request: name.request,
            made_at: Timestamp(0),
            expires_at: Timestamp(1),
            status: name.status,
            content: KeyedContent::Body(sealed.clone()),
        };
        assert_eq!(keys_here.open(&row, &sealed).unwrap(), b"the answer");
        assert_ne!(sealed, keys_here.seal(&name, b"the answer").unwrap(), "a nonce came twice");
        assert!(keys(2).open(&row, &sealed).is_none());
        for changed in [
            KeyedAnswer { key: [3; 32], ..row.clone() },
            KeyedAnswer { request: [3; 32], ..row.clone() },
            KeyedAnswer { status: 200, ..row.clone() },
        ] {
            assert!(keys_here.open(&changed, &sealed).is_none());
        }
        for position in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[position] ^= 1;
            assert!(keys_here.open(&row, &changed).is_none(), "byte {position}");
            assert!(keys_here.open(&row, &sealed[..position]).is_none(), "cut at {position}");
        }
    }

    #[test]
    fn requests_differ_by_method_path_query_and_body() {
        let keys_here = keys(1);
        let hash = |method, target, body: &[u8]| keys_here.request_hash(method, target, body);
        let first = hash("POST", "/v1/cards", b"{}");
        assert_eq!(first, hash("POST", "/v1/cards", b"{}"));
        for other in [
            hash("PUT", "/v1/cards", b"{}"),
            hash("POST", "/v1/cardss", b"{}"),
            hash("POST", "/v1/cards?a=b", b"{}"),
            hash("POST", "/v1/cards", b"{ }"),
            hash("POST", "/v1/card", b"s{}"),
        ] {
            assert_ne!(first, other);
        }
        let elsewhere = keys(2).request_hash("POST", "/v1/cards", b"{}");
        assert_ne!(first, elsewhere, "whoever has no key cannot try bodies");
    }
}
