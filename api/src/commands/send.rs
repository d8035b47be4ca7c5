//! `cardswitch send`.

use std::net::SocketAddr;
use std::time::Duration;

use cardswitch_feed::{FeedError, SendRequest, send};

use super::line_args::LineArgs;
use super::{Failure, parse_address, parse_duration};

/// The arguments of `send`.
#[derive(Debug, clap::Args)]
pub struct SendArgs {
    /// Address of an ISO 8583 door
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8583", value_parser = parse_address)]
    connect: SocketAddr,
    #[command(flatten)]
    line: LineArgs,
    /// Message type, four digits, such as 0100
    #[arg(long, value_name = "MTI")]
    mti: String,
    /// Time to wait for the answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    timeout: Duration,
    /// Data elements of the default dialect as NUMBER=CONTENT, such as 2=4537110000000000 3=000000 4=1250; 7 (time) and 11
    /// (trace number) are filled in if missing, binary ones (52) are hex
    #[arg(value_name = "DE=CONTENT", value_parser = parse_field)]
    fields: Vec<(u8, String)>,
}

fn parse_field(text: &str) -> Result<(u8, String), String> {
    let (number, content) = text.split_once('=').ok_or("write a data element as DE=CONTENT")?;
    let number = number.parse().ok().filter(|number| (2..=128).contains(number));
    Ok((number.ok_or("data elements have numbers from 2 to 128")?, content.to_owned()))
}

/// Carries out `send`: prints request and answer; exits 1 without an answer.
pub async fn run(args: SendArgs) -> Result<(), Failure> {
    let request = SendRequest { mti: args.mti, fields: args.fields };
    let line = args.line.line(args.connect)?;
    let exchange = move || send(&line, &request, args.timeout);
    let sent = tokio::task::spawn_blocking(exchange).await?.map_err(|error| match error {
        FeedError::Refused(_) => Failure::usage(error),
        error => error.into(),
    })?;
    println!("request\n{}", sent.request);
    match sent.answer {
        Some(answer) => {
            println!("answer\n{answer}");
            Ok(())
        }
        None => Err(Failure::new("no answer came in time")),
    }
}
