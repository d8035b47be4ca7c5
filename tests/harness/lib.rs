//! The harness of the process-level tests.
