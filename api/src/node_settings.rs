//! The settings that all nodes of a cluster need alike, as digests that nodes compare.
//!
//! Files count by their content, keys by their check values.

use std::collections::BTreeMap;
use std::fmt::Debug;

use cardswitch_cluster::{NodeRecord, SettingDigests};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::hex::to_hex;

use crate::config::Settings;
use crate::opened_files::OpenedFiles;

/// The digests of a node's settings, under a key of its cluster's.
pub(crate) fn digests_of(
    secrets: &Secrets,
    settings: &Settings,
    files: &OpenedFiles,
) -> SettingDigests {
    let digest = |name: String, value: String| {
        let digest = secrets.setting_digest(&name, &value);
        (name, to_hex(&digest))
    };
    let zones = files.iter_zones().map(|(door, zone)| (format!("zone of {door}"), zone.of_file()));
    SettingDigests {
        keys: zones.map(|(name, value)| digest(name, value)).collect(),
        others: others(settings, files)
            .into_iter()
            .map(|(name, value)| digest(name, value))
            .collect(),
    }
}

/// Has the log name the settings in which this node differs from the one that leads.
pub(crate) fn warn_of_differing(own: &NodeRecord, leader: &NodeRecord) {
    let settings = Vec::from_iter(own.settings.differing(&leader.settings)).join(", ");
    if !settings.is_empty() {
        tracing::warn!(leader = leader.name, settings, "settings are not the leader's");
    }
}

fn others(settings: &Settings, files: &OpenedFiles) -> BTreeMap<String, String> {
    let shown = |value: &dyn Debug| Some(format!("{value:?}"));
    let set = [
        ("bin", shown(&settings.bin)),
        ("network", shown(&settings.network)),
        ("requisition_network", shown(&settings.requisition_network())),
        ("compat", settings.compat.and_then(|client| shown(&client))),
        ("token_requests_per_s", shown(&settings.token_requests_per_s)),
        ("allow_local_webhooks", shown(&settings.allow_local_webhooks)),
        ("base_url", settings.base_url.as_ref().and_then(|url| shown(url))),
        ("app_url", settings.app_url.as_ref().and_then(|url| shown(url))),
        ("faults", files.faults.as_ref().and_then(|plan| shown(plan.rules()))),
    ];
    let set = set.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let dialects = files.iso8583.iter().map(|door| {
        // The name may be that of a file, which other nodes keep elsewhere.
        let dialect = (&door.dialect.framing, &door.dialect.translation);
        (format!("dialect of {}", door.name), format!("{dialect:?}"))
    });
    set.chain(dialects).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use cardswitch_acquiring::zone::ZoneSettings;

    use super::*;
    use crate::config::Compat;

    type Change = fn(&mut Settings);

    fn url() -> Option<String> {
        Some("https://switch.example".to_owned())
    }

    fn digests(root: u8, settings: &Settings) -> SettingDigests {
        let files = OpenedFiles::open(settings).unwrap();
        digests_of(&Secrets::from_root([root; 32]), settings, &files)
    }

    fn with_zone(file: &Path, keys: &str) -> Settings {
        fs::write(file, keys).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
        let zone = ZoneSettings { keys: file.to_owned(), mac: None };
        Settings { iso8583_zone: Some(zone), ..Settings::default() }
    }

    #[test]
    fn a_setting_that_differs_is_named() {
        let rows: [(&str, Change); 11] = [
            ("bin", |settings| settings.bin = "411111".to_owned()),
            ("network", |settings| settings.network = "another".to_owned()),
            ("requisition_network", |settings| settings.network = "another".to_owned()),
            ("compat", |settings| settings.compat = Some(Compat::LegacyClient)),
            ("token_requests_per_s", |settings| settings.token_requests_per_s = 1),
            ("allow_local_webhooks", |settings| settings.allow_local_webhooks = true),
            ("base_url", |settings| settings.base_url = url()),
            ("app_url", |settings| settings.app_url = url()),
            ("faults", |settings| settings.faults = Some("7".to_owned())),
            ("dialect of iso8583", |settings| settings.dialect = "ebcdic".to_owned()),
            ("dialect of iso8583", |settings| settings.tpdu = Some(true)),
        ];
        let own = digests(1, &Settings::default());
        for (name, change) in rows {
            let mut settings = Settings::default();
            assert!(own.differing(&digests(1, &settings)).is_empty());
            change(&mut settings);
            let other = digests(1, &settings);
            assert!(own.differing(&other).contains(name), "{name}: {:?}", own.differing(&other));
            assert!(own.differing_keys(&other).is_empty(), "{name} is no key");
        }
    }

    #[test]
    fn keys_are_compared_by_their_check_values_wherever_their_files_are() {
        let home = tempfile::tempdir().unwrap();
        let settings = |name: &str, last: &str| {
            let keys = format!("pin = {{ tdes = \"0123456789abcdeffedcba98765432{last}\" }}\n");
            digests(1, &with_zone(&home.path().join(name), &keys))
        };
        let own = settings("a", "10");
        assert!(
            own.differing(&settings("b", "10")).is_empty(),
            "the place of a file does not count"
        );
        for other in [settings("c", "20"), digests(1, &Settings::default())] {
            assert_eq!(Vec::from_iter(own.differing_keys(&other)), ["zone of iso8583"]);
        }
    }

    /// Whoever reads etcd could try all check values, or all BINs.
    #[test]
    fn no_digest_is_the_same_under_the_keys_of_another_directory() {
        let home = tempfile::tempdir().unwrap();
        let keys = "pin = { tdes = \"0123456789abcdeffedcba9876543210\" }\n";
        let settings = with_zone(&home.path().join("keys"), keys);
        let (one, other) = (digests(1, &settings), digests(2, &settings));
        assert_eq!(one.differing(&other).len(), one.keys.len() + one.others.len());
        assert_eq!(one.keys.len(), 1);
    }
}
