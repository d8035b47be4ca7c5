//! The faults of a request: the flaw of a value, and the fault that names its field.

/// The flaw of one value; the message continues the field's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// One word for programs.
    pub code: &'static str,
    /// One sentence without its subject, for people.
    pub message: String,
}

impl Flaw {
    /// A flaw with this code and message.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A required value is missing.
    pub fn required() -> Self {
        Self::new("required", "is required")
    }

    /// A value is no object.
    pub fn not_an_object() -> Self {
        Self::new("not_an_object", "must be an object")
    }

    /// A value names an object that does not exist.
    pub fn not_found(noun: &str) -> Self {
        Self::new("not_found", format!("names no {noun} of this company"))
    }
}

/// A field at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field, with dots between levels.
    pub param: String,
    /// The flaw of its value.
    pub flaw: Flaw,
}

impl Fault {
    /// A fault of the field `param`.
    pub fn new(param: impl Into<String>, flaw: Flaw) -> Self {
        Self { param: param.into(), flaw }
    }

    /// The whole sentence.
    pub fn message(&self) -> String {
        format!("`{}` {}", self.param, self.flaw.message)
    }
}

/// The faults of a window that ends before it starts: one for each end.
pub fn window_faults() -> [Fault; 2] {
    [
        Fault::new("start_time", Flaw::new("after_end_time", "must not be after `end_time`")),
        Fault::new("end_time", Flaw::new("before_start_time", "must not be before `start_time`")),
    ]
}
