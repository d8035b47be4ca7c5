//! Statement lines of a company's accounts, in the order of their numbers.

use super::super::listen::StreamEnd;
use super::database::Database;
use super::feed::Feed;

/// A connection to a switch that reads lines.
pub(super) struct LineFeed(pub(super) Feed);

impl LineFeed {
    /// Writes the lines that the database lacks, at least those of the events that are written. Returns how many.
    /// Errors: a connection breaks, or somebody refuses.
    pub(super) async fn write_all(&mut self, database: &Database) -> Result<u64, StreamEnd> {
        let Self(feed) = self;
        let (seq, mut written) = (database.place.seq, 0);
        for account in feed.accounts(seq).await? {
            let mut has_more = true;
            while has_more {
                let newest = database.newest_line(account).await?;
                let page = feed.lines_behind(account, newest, seq).await?;
                written += database.add_lines(account, &page.lines).await?;
                has_more = page.has_more;
            }
        }
        Ok(written)
    }
}
