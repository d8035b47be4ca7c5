//! Categories and their like on the site.
