//! `cardswitch zone-keys`: the keys of a door's file, as the other end compares and takes them.

use std::path::PathBuf;

use cardswitch_secrets::hex::to_hex;
use cardswitch_zone::key_block::wrap;
use cardswitch_zone::{KeyUsage, MacAlgorithm, ZoneKeys};

use super::Failure;
use super::line_args::parse_algorithm;

/// The arguments of `zone-keys`.
#[derive(Debug, clap::Args)]
pub struct ZoneKeysArgs {
    /// File of keys, as the setting `keys` of a door names it
    keys: PathBuf,
    /// Algorithm that the MAC key is for: retail_1, retail_2 or cmac
    #[arg(long, value_name = "ALGORITHM", default_value = "retail_1", value_parser = parse_algorithm)]
    mac: MacAlgorithm,
}

/// Carries out `zone-keys`: one line a key, with its check value and its key block under the master key.
/// Errors: the file cannot be used.
pub fn run(args: &ZoneKeysArgs) -> Result<(), Failure> {
    let keys = ZoneKeys::read(&args.keys, args.mac.usage())?;
    let others = [
        ("mac", args.mac.usage(), &keys.mac),
        ("pin", KeyUsage::Pin, &keys.pin),
        ("issuer", KeyUsage::ChipMaster, &keys.issuer),
    ];
    if let Some(master) = &keys.master {
        println!("master {}", to_hex(&master.check_value()));
    }
    for (name, usage, key) in others {
        let Some(key) = key else { continue };
        let check_value = to_hex(&key.check_value());
        let block = keys.master.as_ref().map(|master| wrap(usage, key, master));
        let block = block.transpose()?.unwrap_or_default();
        println!("{}", format!("{name} {check_value} {block}").trim_end());
    }
    Ok(())
}
