//! `cardswitch decode`: what captured bytes of a card network are, without a switch.

use std::io::Read;
use std::path::PathBuf;

use cardswitch_iso8583::{Dialect, Frame, Spelling, decode, describe, next_frame};
use cardswitch_network::advice::Advice;

use super::Failure;

/// Longer captures are cut.
const CAPTURE_BYTES_MAX: u64 = 1 << 20;

/// What `decode` takes.
#[derive(Debug, clap::Args)]
pub struct DecodeArgs {
    /// File with the bytes a peer sent, as they are or in hex; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Carries out `decode`: says what the bytes seem to be, and prints each message that a dialect reads,
/// card data masked; exits 1 where there is none.
pub fn run(args: &DecodeArgs) -> Result<(), Failure> {
    let bytes = plain_bytes(read(args)?);
    let Some(spelling) = Spelling::of_stream(&bytes) else {
        return Err(Failure::new("no ISO 8583 message begins here in any known spelling"));
    };
    println!("{spelling}");
    let Some(dialect) = spelling.dialect() else {
        return Err(Failure::new("no dialect of this switch reads that"));
    };
    if dialect != Dialect::default() {
        println!(
            "a door with the default dialect says{}",
            Advice::on_stream(&bytes, &Dialect::default())
        );
    }
    print_messages(&bytes, &dialect)
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
fn plain_bytes(bytes: Vec<u8>) -> Vec<u8> {
    let digits = bytes.iter().filter(|byte| !byte.is_ascii_whitespace());
    let digits: Option<Vec<_>> =
        digits.map(|byte| u8::try_from(char::from(*byte).to_digit(16)?).ok()).collect();
    match digits.filter(|digits| digits.len().is_multiple_of(2)) {
        // A message may consist of hex digits itself.
        Some(digits) if Spelling::of_stream(&bytes).is_none() => {
            digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
        }
        _ => bytes,
    }
}

fn print_messages(bytes: &[u8], dialect: &Dialect) -> Result<(), Failure> {
    let mut at = 0;
    while at < bytes.len() {
        match next_frame(&bytes[at..], dialect) {
            Frame::Complete { body, consumed, .. } => {
                print_message(at, &bytes[at + body.start..at + body.end], dialect);
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
    match decode(frame, dialect) {
        Ok(message) => println!("{}", describe(&message)),
        Err(error) => {
            println!("{error}");
            if let Some(readable) = &error.readable {
                println!("{}", describe(readable));
            }
        }
    }
}
