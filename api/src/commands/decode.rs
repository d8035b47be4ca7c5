//! `cardswitch decode`: the meaning of captured bytes of a card network, without a switch.

use std::io::Read;
use std::path::PathBuf;

use cardswitch_acquiring::advice::Advice;
use cardswitch_iso8583::{Dialect, Frame, Spelling, decode, describe, next_frame};

use super::Failure;
use crate::doors::{LengthSetting, dialect_of};

/// Longer captures are cut.
const CAPTURE_BYTES_MAX: u64 = 1 << 20;

/// The arguments of `decode`.
#[derive(Debug, clap::Args)]
pub struct DecodeArgs {
    /// File with the bytes a peer sent, as they are or in hex; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Dialect of the messages: default, ascii-hex, ebcdic, bcd, 1993, or a dialect file [default: what
    /// they seem to be]
    #[arg(long, value_name = "NAME|FILE")]
    dialect: Option<String>,
    /// Length before each message, such as binary4 or ascii4 [default: that of the dialect]
    #[arg(long, value_name = "FORM", requires = "dialect")]
    length: Option<LengthSetting>,
    /// A TPDU precedes each message
    #[arg(long, requires = "dialect")]
    tpdu: bool,
}

/// Carries out `decode`: says what the bytes seem to be, and prints each message that a dialect reads,
/// card data masked; exits 1 where there is none.
pub fn run(args: &DecodeArgs) -> Result<(), Failure> {
    let bytes = plain_bytes(read(args)?, args.dialect.is_some());
    if let Some(name) = &args.dialect {
        let dialect = dialect_of(name, args.length, args.tpdu.then_some(true))?;
        return each_frame(&bytes, &dialect, |at, frame| print_message(at, frame, &dialect));
    }
    let Some(spelling) = Spelling::of_stream(&bytes) else {
        return Err(Failure::new("no ISO 8583 message begins here in any known spelling"));
    };
    println!("{spelling}");
    let dialect = guess(&spelling)?;
    let advice = Advice::on_stream(&bytes, &Dialect::default()).to_string();
    if !advice.is_empty() {
        println!("a door with the default dialect says{advice}");
    }
    each_frame(&bytes, &dialect, |at, frame| print_message(at, frame, &dialect))
}

/// The dialect that reads what the bytes seem to be.
fn guess(spelling: &Spelling) -> Result<Dialect, Failure> {
    let (Some((name, settings)), Some(framing)) = (spelling.dialect(), spelling.framing()) else {
        return Err(Failure::new("no dialect of this switch reads that"));
    };
    let text = format!("base = \"{name}\"\n{}", settings.replace(", ", "\n"));
    let dialect = cardswitch_dialects::parse(name, &text)?;
    Ok(Dialect { framing, ..dialect })
}

fn read(args: &DecodeArgs) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if args.file.as_os_str() == "-" {
        std::io::stdin().take(CAPTURE_BYTES_MAX).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(&args.file)
            .and_then(|file| file.take(CAPTURE_BYTES_MAX).read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::new(format!("{}: {error}", args.file.display())))?;
    Ok(bytes)
}

/// The bytes that hex text stands for, or the bytes themselves where they are none.
fn plain_bytes(bytes: Vec<u8>, is_known: bool) -> Vec<u8> {
    let Some(from_hex) = from_hex(&bytes) else { return bytes };
    // A message may consist of hex digits itself.
    let is_hex = is_known || is_whole(&from_hex) || Spelling::of_stream(&bytes).is_none();
    if is_hex { from_hex } else { bytes }
}

fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    let digits: Option<Vec<_>> =
        digits.map(|byte| u8::try_from(char::from(*byte).to_digit(16)?).ok()).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect())
}

/// Whether the bytes seem to be messages, the last of which ends with them.
fn is_whole(bytes: &[u8]) -> bool {
    let dialect = Spelling::of_stream(bytes).and_then(|spelling| guess(&spelling).ok());
    dialect.is_some_and(|dialect| each_frame(bytes, &dialect, |_, _| {}).is_ok())
}

/// Errors: bytes that are no frame.
fn each_frame(
    bytes: &[u8],
    dialect: &Dialect,
    mut take: impl FnMut(usize, &[u8]),
) -> Result<(), Failure> {
    let mut at = 0;
    while at < bytes.len() {
        match next_frame(&bytes[at..], &dialect.framing) {
            Frame::Complete { body, consumed, .. } => {
                take(at, &bytes[at + body.start..at + body.end]);
                at += consumed;
            }
            Frame::ZeroLength { consumed } | Frame::Undersized { consumed } => at += consumed,
            Frame::Incomplete { needed } => {
                let missing = needed - (bytes.len() - at);
                return Err(Failure::new(format!("offset {at}: {missing} bytes are missing")));
            }
            Frame::Lost(loss) => {
                return Err(Failure::new(format!("offset {at}: {}", loss.reason())));
            }
        }
    }
    Ok(())
}

fn print_message(at: usize, frame: &[u8], dialect: &Dialect) {
    println!("\noffset {at}");
    let (plain, fault) = dialect.plain(frame);
    if let Some(fault) = fault {
        println!("{fault}");
    }
    match decode(&plain) {
        Ok(message) => println!("{}", describe(&message)),
        Err(error) => {
            println!("{error}");
            if let Some(readable) = &error.readable {
                println!("{}", describe(readable));
            }
        }
    }
}
