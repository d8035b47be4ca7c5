//! `serve --faults FILE|SEED`: a switch that misbehaves towards clients under test, and says so.
//!
//! A number is a seed, from which seldom faults of every kind are drawn. Anything else names a file of rules.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cardswitch_acquiring::fault_plan::{FaultPlan, FaultRules};

use crate::config::{ConfigError, parse_file};
use crate::telemetry::health::HealthNote;

/// The note at `/readyz` while faults are on.
pub const NOTE: HealthNote = ("faults", "on: this switch misbehaves on purpose");

/// The faults that are set, if any.
/// Errors: a file that cannot be read or holds no rules; a rule that cannot be carried out.
pub fn open_plan(setting: Option<&str>) -> Result<Option<Arc<FaultPlan>>, ConfigError> {
    let Some(setting) = setting else { return Ok(None) };
    let plan = match setting.parse() {
        Ok(seed) => FaultPlan::from_seed(seed),
        Err(_) => read_plan(setting)?,
    };
    tracing::warn!(faults = setting, "answers and webhooks meet faults on purpose");
    Ok(Some(Arc::new(plan)))
}

fn read_plan(path: &str) -> Result<FaultPlan, ConfigError> {
    let text = fs::read_to_string(path).map_err(|error| ConfigError::Read(path.into(), error))?;
    let rules: FaultRules = parse_file(Path::new(path), &text)?;
    FaultPlan::of(rules).map_err(|error| ConfigError::Faults(path.to_owned(), error))
}
