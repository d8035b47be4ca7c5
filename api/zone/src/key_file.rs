//! The keys of a door, as its file has them: TOML that only its owner can read.
//!
//! ```text
//! master = { tdes = "32 or 48 hex digits", check = "6 hex digits" }
//! mac    = { tr31 = "B0096M3TC00N0000.." }
//! pin    = { aes = "32, 48 or 64 hex digits" }
//! issuer = { tdes = "32 hex digits" }
//! ```
//! Each key may be missing, and `check` too: it is the key's check value, or its first digits. `tr31` is a key
//! block under the master key.
//!
//! INVARIANT: no error shows a value of the file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cardswitch_iso8583::line_of;
use cardswitch_secrets::hex::{from_hex, to_hex};
use cardswitch_secrets::plain_file::read_named;
use zeroize::Zeroizing;

use crate::key::{Algorithm, ZoneKey};
use crate::key_block::{KeyUsage, unwrap};

/// The rights that others than the owner may have on such a file: none.
const OTHERS_MASK: u32 = 0o077;
const CHECK_DIGITS: std::ops::RangeInclusive<usize> = 4..=6;

/// Why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`{}`: {reason}", .path.display())]
pub struct KeyFileError {
    path: PathBuf,
    reason: String,
}

impl KeyFileError {
    /// An error of what the file has under `name`.
    pub fn of_key(path: &Path, name: &str, reason: impl std::fmt::Display) -> Self {
        Self { path: path.to_owned(), reason: format!("`{name}` {reason}") }
    }
}

/// The keys of a door.
#[derive(Debug, Default)]
pub struct ZoneKeys {
    /// Under which new keys come.
    pub master: Option<ZoneKey>,
    /// Authenticates messages.
    pub mac: Option<ZoneKey>,
    /// Enciphers PINs.
    pub pin: Option<ZoneKey>,
    /// The keys of chip cards derive from it.
    pub issuer: Option<ZoneKey>,
}

impl ZoneKeys {
    /// Reads a file; `mac` is what its MAC key has to be for.
    /// Errors: the file cannot be read, or by too many; the first key that is none.
    pub fn read(path: &Path, mac: KeyUsage) -> Result<Self, KeyFileError> {
        let error = |reason: String| KeyFileError { path: path.to_owned(), reason };
        let metadata = fs::metadata(path).map_err(|cause| error(cause.to_string()))?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & OTHERS_MASK != 0 {
            return Err(error(format!("others may read it (mode {mode:03o}): chmod 600")));
        }
        let content = read_named(path).map_err(|cause| error(cause.to_string()))?;
        let text = String::from_utf8(content).map_err(|_| error("is no text".to_owned()))?;
        let text = Zeroizing::new(text);
        let table: toml::Table = text.parse().map_err(|cause: toml::de::Error| {
            let line = line_of(&text, cause.span().map_or(0, |span| span.start));
            // The parser would quote the line.
            error(format!("line {line} is no TOML"))
        })?;
        let keys = Self::of_table(&table, mac);
        keys.map_err(|(name, reason)| KeyFileError::of_key(path, &name, reason))
    }

    fn of_table(table: &toml::Table, mac: KeyUsage) -> Result<Self, (String, String)> {
        let mut keys = Self::default();
        let places = [
            ("master", KeyUsage::Wrapping, &mut keys.master),
            ("mac", mac, &mut keys.mac),
            ("pin", KeyUsage::Pin, &mut keys.pin),
            ("issuer", KeyUsage::ChipMaster, &mut keys.issuer),
        ];
        let names = places.iter().map(|(name, ..)| *name).collect::<Vec<_>>();
        if let Some(other) = table.keys().find(|name| !names.contains(&name.as_str())) {
            return Err((other.clone(), format!("is none of {}", names.join(", "))));
        }
        let mut master: Option<&ZoneKey> = None;
        for (name, usage, place) in places {
            let Some(value) = table.get(name) else { continue };
            let read = key_of(value, usage, master);
            let key = place.insert(read.map_err(|reason| (name.to_owned(), reason))?);
            master = master.or(Some(key).filter(|_| usage == KeyUsage::Wrapping).map(|key| &*key));
        }
        Ok(keys)
    }
}

fn key_of(
    value: &toml::Value,
    usage: KeyUsage,
    master: Option<&ZoneKey>,
) -> Result<ZoneKey, String> {
    let form = "is no table such as { tdes = \"..\" }, { aes = \"..\" } or { tr31 = \"..\" }";
    let table = value.as_table().ok_or(form)?;
    let text = |name: &str| table.get(name).and_then(toml::Value::as_str);
    let is_known = |name: &String| ["tdes", "aes", "tr31", "check"].contains(&name.as_str());
    if !table.keys().all(is_known) {
        return Err(form.to_owned());
    }
    let key = match (text("tdes"), text("aes"), text("tr31")) {
        (Some(digits), None, None) => clear_key(Algorithm::Tdes, digits)?,
        (None, Some(digits), None) => clear_key(Algorithm::Aes, digits)?,
        (None, None, Some(block)) => {
            let master = master.ok_or("is a key block, and the file has no `master` for it")?;
            match unwrap(block, master) {
                Ok((found, key)) if found == usage => key,
                Ok((found, _)) => return Err(format!("is a key for {found}, not for {usage}")),
                Err(fault) => return Err(fault.to_string()),
            }
        }
        _ => return Err(form.to_owned()),
    };
    let check = to_hex(&key.check_value());
    let is_checked = |said: &str| {
        CHECK_DIGITS.contains(&said.len()) && check.starts_with(&said.to_ascii_lowercase())
    };
    match table.get("check").map(|value| value.as_str().is_some_and(is_checked)) {
        Some(false) => Err(format!("has the check value {check}, and `check` says another")),
        _ => Ok(key),
    }
}

fn clear_key(algorithm: Algorithm, digits: &str) -> Result<ZoneKey, String> {
    let bytes = from_hex(digits).ok_or("has others than hex digits, or half a byte")?;
    ZoneKey::new(algorithm, bytes).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_with(text: &str, mode: u32) -> Result<ZoneKeys, String> {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("zone.keys");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        ZoneKeys::read(&path, KeyUsage::RetailMac).map_err(|error| error.to_string())
    }

    const MASTER: &str =
        "master = { tdes = \"0123456789ABCDEFFEDCBA98765432101122334455667788\" }\n";
    const BLOCK: &str = "B0096M3TC00N000067BA62DADFC0DDD26E15A75C39D8F229906B859AE03F94B935087A322FE8AA5D2B3A2D44BD69F2DC";

    #[test]
    fn keys_come_clear_or_wrapped_and_are_checked() {
        let text = format!(
            "{MASTER}mac = {{ tr31 = \"{BLOCK}\", check = \"08D7B4\" }}\n\
             pin = {{ aes = \"{}\" }}\n",
            "1f".repeat(16)
        );
        let keys = read_with(&text, 0o600).unwrap();
        assert_eq!(keys.mac.unwrap().check_value(), [0x08, 0xd7, 0xb4]);
        assert_eq!(keys.pin.unwrap().algorithm, Algorithm::Aes);
        assert!(keys.master.is_some() && keys.issuer.is_none());
        assert!(read_with("", 0o400).unwrap().mac.is_none());
    }

    #[test]
    fn errors_name_file_and_key_and_show_no_value() {
        let secret = "0123456789abcdeffedcba9876543210";
        let rows = [
            (
                format!("mac = {{ tdes = \"{}\" }}", &secret[..30]),
                "`mac` has 15 bytes; a key of TDES has 16 or 24",
            ),
            (
                format!("mac = {{ tdes = \"{}g\" }}", &secret[..31]),
                "`mac` has others than hex digits",
            ),
            (format!("mac = \"{secret}\""), "`mac` is no table such as"),
            (format!("mac = {{ des = \"{secret}\" }}"), "`mac` is no table such as"),
            (format!("mac = {{ tdes = \"{secret}\", aes = \"{secret}\" }}"), "`mac` is no table"),
            (
                format!("mac = {{ tdes = \"{secret}\", check = \"0000\" }}"),
                "check value 08d7b4, and `check`",
            ),
            (
                format!("mac = {{ tdes = \"{secret}\", check = 8 }}"),
                "check value 08d7b4, and `check`",
            ),
            (format!("mac = {{ tr31 = \"{BLOCK}\" }}"), "and the file has no `master`"),
            (
                format!("{MASTER}pin = {{ tr31 = \"{BLOCK}\" }}"),
                "`pin` is a key for M3, not for P0",
            ),
            (
                format!("{MASTER}mac = {{ tr31 = \"{}\" }}", BLOCK.replace("67BA", "67BB")),
                "`mac` was changed",
            ),
            (
                format!("zpk = {{ tdes = \"{secret}\" }}"),
                "`zpk` is none of master, mac, pin, issuer",
            ),
            (format!("\nmac = {{ tdes = \"{secret} }}"), "line 2 is no TOML"),
        ];
        for (text, words) in rows {
            let error = read_with(&text, 0o600).unwrap_err();
            assert!(error.contains(words) && error.contains("zone.keys"), "{text}: {error}");
            assert!(!error.contains(&secret[..8]), "{error}");
        }
        let error = read_with(MASTER, 0o640).unwrap_err();
        assert!(error.contains("others may read it (mode 640)"), "{error}");
        let gone = ZoneKeys::read(Path::new("/gone/zone.keys"), KeyUsage::Cmac).unwrap_err();
        assert!(gone.to_string().starts_with("`/gone/zone.keys`: "), "{gone}");
    }
}
