//! The card network's doors: ISO 8583 over TCP and JSON over HTTP, with one core behind both.
//!
//! | file | what |
//! |---|---|
//! | `de39` | answers in the network's two-character code |
//! | `marks` | the keys by which messages are named, the same for both doors |

pub mod de39;
pub mod marks;
