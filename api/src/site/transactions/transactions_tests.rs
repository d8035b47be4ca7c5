//! Transactions on the site.
