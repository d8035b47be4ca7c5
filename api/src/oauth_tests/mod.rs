//! The endpoints of OAuth, asked in process beside a whole switch.

mod code_grant;
mod password_grant;
mod revoke;
mod world;
