//! Deliveries at work beside an engine.

mod apps;
mod kept_places;
mod world;
