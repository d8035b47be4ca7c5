//! Statements on the site.
