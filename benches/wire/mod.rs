//! Clients of the doors.
