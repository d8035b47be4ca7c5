//! The simulated card network, as its commands show it.

mod demo;
mod scenarios;
