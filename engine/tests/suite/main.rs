//! The engine as a whole, through its public face.
//!
//! `model_tests` checks the shard against the reference model of `tests/sim`, on what its workload
//! draws; `replay` folds what it journaled again, from records and from tables; `money` keeps the stories of found
//! bugs; `running` drives the engine with all its threads, `in_place` on those of its callers; `members`, `people`, `requisitions`,
//! `dimensions`, `shared_links`, `exchanged_keys`, `seen_objects`, `stand_in_advices`, `hold_lifetimes`, `idempotency_keys` and `audit_events` are the tables of their rules; `texts` looks at their fields; `office` has the people of most;
//! `state_hashes` tells where programs of fixed seeds lead elsewhere. Random tests print their
//! seed; `CARDSWITCH_SEED` repeats one and `CARDSWITCH_MODEL_STEPS` makes them longer.

#![expect(clippy::unwrap_used, reason = "a test stops where something is missing")]
#![expect(clippy::panic, reason = "a test says what differs and stops")]
#![expect(clippy::cast_possible_truncation, reason = "numbers here are small")]
#![expect(clippy::cast_sign_loss, reason = "numbers here are not negative")]

mod audit_events;
mod backups;
mod bounded_memory;
mod calendar;
mod cards_at_once;
mod credentials;
mod desk;
mod dimensions;
mod early_reversals;
mod events;
mod exchanged_keys;
mod faults;
mod further_presentments;
mod hold_lifetimes;
mod idempotency_keys;
mod in_place;
mod leaving;
mod looking;
mod members;
mod model_tests;
mod money;
mod money_bounds;
mod office;
mod pan_key;
mod people;
mod presented_in_parts;
mod recall;
mod refunds;
mod replay;
mod requisitions;
mod reversals;
mod reversed_parts;
mod running;
mod seen_objects;
mod shared_links;
mod stand_in_advices;
mod state_hashes;
mod story;
mod texts;
mod webhook_endpoints;

use cardswitch_sim::{driver, model, names, rng, samples, shrink, workload};
