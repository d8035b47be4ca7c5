//! Changes made to a company's data and who made them, as sentences. GET /audit.
//!
//! | file | what |
//! |---|---|
//! | `list` | the page, its filters, and sign-ins folded together |
//! | `sentence` | an event in words: actor, action and thing, and the values before and after |
//! | `names` | the names of the things and actors that events hold by id |

pub(super) mod list;
mod names;
mod sentence;
