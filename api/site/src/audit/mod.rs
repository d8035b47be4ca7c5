//! Changes made to a company's data and who made them, as sentences. GET /audit.
//!
//! | file | what |
//! |---|---|
//! | `list` | the page, its filters, and sign-ins folded together |
//! | `sentence` | an event in words: who did what to which thing, and the values before and after |
//! | `names` | what people call the things and actors that events name by id |

pub(super) mod list;
mod names;
mod sentence;
