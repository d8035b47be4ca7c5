//! The flags by which commands that speak ISO 8583 choose a dialect.

use cardswitch_iso8583::Dialect;

use super::Failure;
use crate::doors::{LengthSetting, dialect_of};

/// A dialect, as `serve` takes it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct DialectArgs {
    /// Dialect of the messages: default, ascii-hex, ebcdic, bcd, 1993, or a dialect file
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    dialect: String,
    /// Length before each message, such as binary4 or ascii4 [default: that of the dialect]
    #[arg(long, value_name = "FORM")]
    length: Option<LengthSetting>,
    /// A TPDU stands before each message
    #[arg(long)]
    tpdu: bool,
}

impl DialectArgs {
    /// The dialect.
    pub(super) fn dialect(&self) -> Result<Dialect, Failure> {
        let tpdu = self.tpdu.then_some(true);
        dialect_of(&self.dialect, self.length, tpdu).map_err(Failure::new)
    }
}
