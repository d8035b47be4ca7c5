//! What companies, apps and people are told of: webhooks to endpoints, letters to addresses.
//!
//! Both follow what is durable; nothing here changes anything but its own cursors and queues.

pub mod mail;
pub mod webhooks;
