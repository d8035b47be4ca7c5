//! Statement lines of a company's accounts, in the order of their numbers.

use super::super::listen::StreamEnd;
use super::database::Database;
use super::feed::Feed;

/// A connection to a switch that reads lines.
pub(super) struct LineFeed(pub(super) Feed);

impl LineFeed {
    /// Writes the lines that the database lacks, at least those of the events that are written. Returns how many.
    /// Errors: the newest line written is not the switch's, a connection breaks, or somebody refuses.
    pub(super) async fn write_all(&mut self, database: &mut Database) -> Result<u64, StreamEnd> {
        let Self(feed) = self;
        let mut written = 0;
        for account in feed.accounts(database.place.seq).await? {
            let newest = database.newest_line(account).await?;
            // The newest one is read again. A history that was restored gives its number to another one.
            let mut behind = newest.map_or(0, |newest| newest.number - 1);
            let mut page = feed.lines_behind(account, behind, database.place.seq).await?;
            newest.map_or(Ok(()), |newest| page.begin_with(newest))?;
            written += database.add_lines(account, &page).await?;
            while page.has_more {
                behind = database.newest_line(account).await?.map_or(0, |newest| newest.number);
                page = feed.lines_behind(account, behind, database.place.seq).await?;
                written += database.add_lines(account, &page).await?;
            }
        }
        Ok(written)
    }
}
