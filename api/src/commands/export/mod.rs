//! `cardswitch export`: the transactions and statement lines of a company in a PostgreSQL database, kept up to date.
//!
//! It follows the event feed of a switch, from this machine or another, and writes each page in one database
//! transaction with the place behind it. It remembers nothing else, so it may be killed at any time.

mod database;
mod database_tls;
mod feed;
mod lines;
mod rows;

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_postgres::Config;
use url::Url;

use self::database::Database;
use self::feed::{AnsweredPage, ExportedPages, Feed};
use self::lines::LineFeed;
use super::http_client::parse_url;
use super::http_tls_args::{HttpTls, HttpTlsArgs};
use super::listen::StreamEnd;
use super::{Failure, StopSignal, complain};

/// How long to wait before what broke is tried again, at the next address.
const RETRY_WAIT: Duration = Duration::from_secs(1);
/// How long a database host may be silent, where the address does not say.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Pages that are read ahead, and written together where they have come.
const PAGES_AHEAD: usize = 8;

/// The arguments of `export`.
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// Database to write to, such as postgres://user:password@host/database
    #[arg(long, env = "CARDSWITCH_EXPORT_TO", value_name = "URL", hide_env_values = true)]
    to: String,
    /// HTTP address of the switch; of a cluster those of all nodes, with commas between them
    #[arg(
        long,
        env = "CARDSWITCH_URL",
        value_name = "URL",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:8080"
    )]
    url: Vec<String>,
    /// Access token of the company
    #[arg(long, env = "CARDSWITCH_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: String,
    #[command(flatten)]
    http_tls: HttpTlsArgs,
    /// End when all present events are written
    #[arg(long)]
    once: bool,
    /// Remove the company's rows first, and write all anew: once, after a restore of the switch
    #[arg(long)]
    afresh: bool,
}

/// Carries out `export`: runs until Ctrl-C, or until the switch or the database refuses.
pub async fn run(args: ExportArgs) -> Result<(), Failure> {
    let mut stop = StopSignal::listen()?;
    let to: Config = args.to.parse().map_err(|error| {
        Failure::usage(format!(
            "--to is no address of a database such as postgres://user@host/database: {error}"
        ))
    })?;
    let to = with_timeouts(to);
    let urls = args.url.iter().map(|url| parse_url(url)).collect::<Result<Vec<_>, _>>()?;
    let tls = args.http_tls.open(&urls)?;
    let mut run = ExportRun { events: 0, transactions: 0, lines: 0, begins_afresh: args.afresh };
    let exported = tokio::select! {
        () = stop.received() => Ok(()),
        exported = keep_on(&args, (&urls, &tls), &to, &mut run) => exported,
    };
    println!(
        "{} events written, {} transactions, {} statement lines",
        run.events, run.transactions, run.lines
    );
    exported
}

/// The database, whose host is given up once it is silent: one that lost its power says nothing.
fn with_timeouts(mut to: Config) -> Config {
    if to.get_connect_timeout().is_none() {
        to.connect_timeout(SILENCE_MAX);
    }
    if to.get_tcp_user_timeout().is_none() {
        to.tcp_user_timeout(SILENCE_MAX);
    }
    // An idle connection is looked after, too.
    let idle = to.get_keepalives_idle().min(SILENCE_MAX);
    to.keepalives_idle(idle);
    to
}

/// A run of the command, over all its connections.
#[derive(Debug)]
struct ExportRun {
    /// How many are written.
    events: usize,
    transactions: u64,
    lines: u64,
    /// Whether the company's rows are still to be removed.
    begins_afresh: bool,
}

async fn keep_on(
    args: &ExportArgs,
    (urls, tls): (&[Url], &HttpTls),
    to: &Config,
    run: &mut ExportRun,
) -> Result<(), Failure> {
    for url in urls.iter().cycle() {
        match follow((url, tls), args, to, run).await {
            Ok(()) => break,
            Err(StreamEnd::Refused(failure)) => return Err(failure),
            Err(StreamEnd::Broken(why)) => complain(format_args!("{why}: trying again")),
        }
        tokio::time::sleep(RETRY_WAIT).await;
    }
    Ok(())
}

/// Reads and writes at once.
async fn follow(
    (url, tls): (&Url, &HttpTls),
    args: &ExportArgs,
    to: &Config,
    run: &mut ExportRun,
) -> Result<(), StreamEnd> {
    let mut feed = Feed::open(url, tls, &args.token).await?;
    let company = feed.company().await?;
    let mut database = Database::open(to, &company).await?;
    if run.begins_afresh {
        database.begin_afresh().await?;
        run.begins_afresh = false;
    }
    // Lines have a connection of their own: the other one waits for events.
    let mut lines = LineFeed(Feed::open(url, tls, &args.token).await?);
    // Nothing of a restored switch comes to rows of a history that it lost.
    lines.0.prove(&database.place).await?;
    run.lines += lines.write_all(&mut database).await?;
    let place = database.place.clone();
    let (pages, read) = mpsc::channel(PAGES_AHEAD);
    // It asks for the next page while rows are made of the one before.
    let mut reading = JoinSet::new();
    reading.spawn(feed.read(place, args.once, pages));
    write_all(database, read, lines, run).await?;
    match reading.join_next().await {
        Some(Ok(read)) => read,
        _ => Err(StreamEnd::Broken("the reader of events broke".to_owned())),
    }
}

async fn write_all(
    mut database: Database,
    mut pages: mpsc::Receiver<AnsweredPage>,
    mut lines: LineFeed,
    run: &mut ExportRun,
) -> Result<(), StreamEnd> {
    let mut read = Vec::with_capacity(PAGES_AHEAD);
    while pages.recv_many(&mut read, PAGES_AHEAD).await > 0 {
        let exported = ExportedPages::read(&read)?;
        read.clear();
        run.transactions += database.write(&exported).await?;
        run.events += exported.events;
        if pages.is_empty() {
            run.lines += lines.write_all(&mut database).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_database_host_is_given_up_when_its_address_says_or_soon() {
        let timeouts = |url: &str| {
            let to = with_timeouts(url.parse().unwrap());
            let seconds = |time: Option<&Duration>| time.map(Duration::as_secs);
            let idle = to.get_keepalives_idle().as_secs();
            (seconds(to.get_connect_timeout()), seconds(to.get_tcp_user_timeout()), idle)
        };
        assert_eq!(timeouts("postgres://u@h/d"), (Some(30), Some(30), 30));
        let url = "postgres://u@h/d?connect_timeout=5&tcp_user_timeout=90&keepalives_idle=10";
        assert_eq!(timeouts(url), (Some(5), Some(90), 10));
    }
}
