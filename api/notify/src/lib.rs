//! Notifications of companies, apps and people: webhooks to endpoints, letters to addresses.
//!
//! Both follow the durable log; nothing here changes anything but its own cursors and queues.

pub mod mail;
pub mod webhooks;
