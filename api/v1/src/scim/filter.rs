//! Filters of users: `userName eq "ada@example.com" and (active eq true or not (title pr))`.
//! Source: RFC 7644, 3.4.2.2.
//!
//! A filter is read once, into a tree whose depth is bounded. `and` binds before `or`. The filter in
//! brackets after a list is about the elements of that list. No list of a user has more than one
//! element, so each comparison in brackets can be asked by itself.
//!
//! An attribute that users do not have is one without a value.

use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::email::email_key;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::time::parse_time;

use super::attribute::{ComparisonKind, Field, shorten};

/// The longest filter. Units: bytes.
const FILTER_BYTES_MAX: usize = 4_096;
/// The most comparisons in one.
const TESTS_MAX: usize = 100;
/// The greatest depth of parentheses and brackets.
const DEPTH_MAX: usize = 20;

/// The condition that the users of a list meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    Ask(Test),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// The field compared; none where users have no such attribute.
    field: Option<Field>,
    operator: Operator,
    operand: Operand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Contains,
    StartsWith,
    EndsWith,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Present,
}

const OPERATORS: [(&str, Operator); 10] = [
    ("eq", Operator::Equal),
    ("ne", Operator::NotEqual),
    ("co", Operator::Contains),
    ("sw", Operator::StartsWith),
    ("ew", Operator::EndsWith),
    ("gt", Operator::Greater),
    ("ge", Operator::GreaterOrEqual),
    ("lt", Operator::Less),
    ("le", Operator::LessOrEqual),
    ("pr", Operator::Present),
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operand {
    Nothing,
    Text(String),
    ExactText(String),
    Flag(bool),
    Time(Timestamp),
}

/// The value of a user's field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldValue<'a> {
    /// Text of any kind.
    Text(&'a str),
    /// True or false.
    Flag(bool),
    /// An instant.
    Time(Timestamp),
}

impl Filter {
    /// Reads a filter.
    /// Errors: it is not one, or is longer or deeper than any that means something.
    pub(super) fn parse(text: &str) -> Result<Self, ApiError> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(invalid("is too long"));
        }
        let mut parser = Parser { rest: Tokens { text }, tests: 0, depth: 0, list: None };
        let filter = parser.any()?;
        match parser.rest.next()? {
            None => Ok(filter),
            Some(Token::Close | Token::CloseList) => Err(invalid("closes what was not opened")),
            Some(_) => Err(not_joined()),
        }
    }

    /// Whether somebody is wanted whose fields have these values.
    pub(super) fn accepts<'a>(
        &self,
        value_of: &mut dyn FnMut(Field) -> Option<FieldValue<'a>>,
    ) -> bool {
        match self {
            Self::Ask(test) => test.accepts(test.field.and_then(value_of)),
            Self::Not(filter) => !filter.accepts(value_of),
            Self::All(filters) => filters.iter().all(|filter| filter.accepts(value_of)),
            Self::Any(filters) => filters.iter().any(|filter| filter.accepts(value_of)),
        }
    }

    /// The field and the text, where the filter asks for one text and nothing else.
    pub(super) fn sole_text(&self) -> Option<(Field, &str)> {
        let Self::Ask(Test { field: Some(field), operator: Operator::Equal, operand }) = self
        else {
            return None;
        };
        match operand {
            Operand::Text(text) | Operand::ExactText(text) => Some((*field, text)),
            Operand::Nothing | Operand::Flag(_) | Operand::Time(_) => None,
        }
    }
}

impl Test {
    fn accepts(&self, value: Option<FieldValue<'_>>) -> bool {
        let Some(value) = value else {
            return match self.operator {
                Operator::Equal => self.operand == Operand::Nothing,
                Operator::NotEqual => self.operand != Operand::Nothing,
                _ => false,
            };
        };
        match (&value, &self.operand) {
            (_, Operand::Nothing) => {
                matches!(self.operator, Operator::Present | Operator::NotEqual)
            }
            (FieldValue::Text(text), Operand::ExactText(operand)) => {
                compare_text(self.operator, text, operand)
            }
            (FieldValue::Text(text), Operand::Text(operand)) => {
                compare_text(self.operator, &email_key(text), operand)
            }
            (FieldValue::Flag(flag), Operand::Flag(operand)) => {
                compare(self.operator, flag, operand)
            }
            (FieldValue::Time(time), Operand::Time(operand)) => {
                compare(self.operator, time, operand)
            }
            _ => false,
        }
    }
}

fn compare_text(operator: Operator, text: &str, operand: &str) -> bool {
    match operator {
        Operator::Contains => text.contains(operand),
        Operator::StartsWith => text.starts_with(operand),
        Operator::EndsWith => text.ends_with(operand),
        _ => compare(operator, &text, &operand),
    }
}

fn compare<T: Ord>(operator: Operator, value: &T, operand: &T) -> bool {
    match operator {
        Operator::Equal => value == operand,
        Operator::NotEqual => value != operand,
        Operator::Greater => value > operand,
        Operator::GreaterOrEqual => value >= operand,
        Operator::Less => value < operand,
        Operator::LessOrEqual => value <= operand,
        Operator::Present => true,
        Operator::Contains | Operator::StartsWith | Operator::EndsWith => false,
    }
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::invalid_field("filter", Flaw::new("invalid_filter", message))
}

fn not_joined() -> ApiError {
    invalid("needs `and` or `or` between two comparisons")
}

/// A piece of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'a> {
    Open,
    Close,
    OpenList,
    CloseList,
    /// A name, an operator, or a value without quotes.
    Word(&'a str),
    /// A text in quotes.
    Text(String),
}

/// The unread rest of a filter.
#[derive(Clone, Copy)]
struct Tokens<'a> {
    text: &'a str,
}

impl<'a> Tokens<'a> {
    /// The next piece.
    /// Errors: a character that begins none, a text without an end.
    fn next(&mut self) -> Result<Option<Token<'a>>, ApiError> {
        let text = self.text.trim_start_matches(' ');
        let Some(first) = text.chars().next() else { return Ok(None) };
        let mark = match first {
            '(' => Some(Token::Open),
            ')' => Some(Token::Close),
            '[' => Some(Token::OpenList),
            ']' => Some(Token::CloseList),
            _ => None,
        };
        let (token, end) = match mark {
            Some(mark) => (mark, first.len_utf8()),
            None if first == '"' => quoted(text)?,
            None => word(text)?,
        };
        self.text = &text[end..];
        Ok(Some(token))
    }

    /// The next piece, which must be there.
    fn required(&mut self, noun: &str) -> Result<Token<'a>, ApiError> {
        self.next()?.ok_or_else(|| invalid(format!("ends where {noun} is expected")))
    }
}

fn quoted(text: &str) -> Result<(Token<'_>, usize), ApiError> {
    let mut is_escaped = false;
    for (place, byte) in text.bytes().enumerate().skip(1) {
        if byte == b'"' && !is_escaped {
            let end = place + 1;
            let read = serde_json::from_str(&text[..end]);
            let read = read.map_err(|_| invalid("has a text that is not written as in JSON"))?;
            return Ok((Token::Text(read), end));
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    Err(invalid("has a text without an end"))
}

fn word(text: &str) -> Result<(Token<'_>, usize), ApiError> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "._:-+$".contains(letter);
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    if end == 0 {
        return Err(invalid(format!("cannot be read from `{}` on", shorten(text))));
    }
    Ok((Token::Word(&text[..end]), end))
}

/// Reads a filter by recursive descent.
struct Parser<'a> {
    rest: Tokens<'a>,
    tests: usize,
    /// How many parentheses and brackets are open.
    depth: usize,
    /// The list in whose brackets the next comparison stands.
    list: Option<&'a str>,
}

impl<'a> Parser<'a> {
    /// Filters with `or` between them.
    fn any(&mut self) -> Result<Filter, ApiError> {
        let first = self.all()?;
        self.joined("or", first, Self::all, Filter::Any)
    }

    /// Filters with `and` between them.
    fn all(&mut self) -> Result<Filter, ApiError> {
        let first = self.one()?;
        self.joined("and", first, Self::one, Filter::All)
    }

    /// `first`, or all of those that `word` joins to it.
    fn joined(
        &mut self,
        word: &str,
        first: Filter,
        read: fn(&mut Self) -> Result<Filter, ApiError>,
        join: fn(Vec<Filter>) -> Filter,
    ) -> Result<Filter, ApiError> {
        let mut filters = vec![first];
        loop {
            let mut rest = self.rest;
            match rest.next()? {
                Some(Token::Word(next)) if next.eq_ignore_ascii_case(word) => self.rest = rest,
                _ if filters.len() == 1 => return Ok(filters.remove(0)),
                _ => return Ok(join(filters)),
            }
            filters.push(read(self)?);
        }
    }

    /// A comparison, or a filter in parentheses or brackets.
    fn one(&mut self) -> Result<Filter, ApiError> {
        match self.rest.required("a comparison")? {
            Token::Open => self.group(&Token::Close),
            Token::Word(name) if name.eq_ignore_ascii_case("not") => {
                match self.rest.required("a parenthesis")? {
                    Token::Open => Ok(Filter::Not(Box::new(self.group(&Token::Close)?))),
                    _ => Err(invalid("needs a parenthesis after `not`")),
                }
            }
            Token::Word(name) => self.ask(name),
            _ => Err(invalid("needs a comparison where there is none")),
        }
    }

    /// The filter before `end`, of which the beginning is read.
    fn group(&mut self, end: &Token<'_>) -> Result<Filter, ApiError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(invalid(format!("is nested more than {DEPTH_MAX} deep")));
        }
        let filter = self.any()?;
        match self.rest.next()? {
            Some(token) if token == *end => {}
            Some(Token::Close | Token::CloseList) => {
                return Err(invalid("has parentheses and brackets that cross"));
            }
            Some(_) => return Err(not_joined()),
            None => return Err(invalid("opens what is not closed")),
        }
        self.depth -= 1;
        Ok(filter)
    }

    /// A comparison, or what stands in brackets after a list.
    fn ask(&mut self, name: &'a str) -> Result<Filter, ApiError> {
        let word = match self.rest.required("an operator")? {
            Token::OpenList if self.list.is_some() => {
                return Err(invalid("has brackets within brackets"));
            }
            Token::OpenList => {
                self.list = Some(name);
                let filter = self.group(&Token::CloseList)?;
                self.list = None;
                return Ok(filter);
            }
            Token::Word(word) => word,
            _ => return Err(invalid(format!("needs an operator after `{}`", shorten(name)))),
        };
        let known = OPERATORS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
        let unknown = || invalid(format!("has the unknown operator `{}`", shorten(word)));
        let operator = known.ok_or_else(unknown)?.1;
        let value = match operator {
            Operator::Present => None,
            _ => Some(self.rest.required("a value")?),
        };
        self.tests += 1;
        if self.tests > TESTS_MAX {
            return Err(invalid(format!("has more than {TESTS_MAX} comparisons")));
        }
        let name = self.list.map_or_else(|| name.to_owned(), |list| format!("{list}.{name}"));
        test(&name, operator, value).map(Filter::Ask)
    }
}

/// A comparison, once operator and value are found to fit the attribute.
fn test(name: &str, operator: Operator, value: Option<Token<'_>>) -> Result<Test, ApiError> {
    let found = Field::find(name);
    let misfit = || invalid(format!("compares `{}` with what it never is", shorten(name)));
    let operand = match value {
        None => Operand::Nothing,
        Some(Token::Word("null")) => match operator {
            Operator::Equal | Operator::NotEqual => Operand::Nothing,
            _ => return Err(misfit()),
        },
        Some(Token::Text(text)) => {
            operand_of(found.map(|(_, kind)| kind), &text).ok_or_else(misfit)?
        }
        // Values that no text field has; numbers are the values of nothing here.
        Some(Token::Word(word)) if is_literal(word) => match found {
            Some((_, ComparisonKind::Flag)) | None => Operand::Flag(word == "true"),
            Some(_) => return Err(misfit()),
        },
        Some(_) => return Err(invalid("needs a value in quotes, a number, true, false or null")),
    };
    let orders = matches!(
        operator,
        Operator::Greater | Operator::GreaterOrEqual | Operator::Less | Operator::LessOrEqual
    );
    let cuts = matches!(operator, Operator::Contains | Operator::StartsWith | Operator::EndsWith);
    let is_sensible = match operand {
        Operand::Flag(_) => !orders && !cuts,
        Operand::Time(_) => !cuts,
        Operand::Nothing | Operand::Text(_) | Operand::ExactText(_) => true,
    };
    if !is_sensible {
        return Err(misfit());
    }
    Ok(Test { field: found.map(|(field, _)| field), operator, operand })
}

fn operand_of(kind: Option<ComparisonKind>, text: &str) -> Option<Operand> {
    match kind {
        // As addresses are compared, so that a filter finds whom a look-up finds.
        Some(ComparisonKind::Text) | None => Some(Operand::Text(email_key(text))),
        Some(ComparisonKind::ExactText) => Some(Operand::ExactText(text.to_owned())),
        // Some identity providers put quotes around these too.
        Some(ComparisonKind::Flag) => text.to_lowercase().parse().ok().map(Operand::Flag),
        Some(ComparisonKind::Time) => parse_time(text).map(Operand::Time),
    }
}

fn is_literal(word: &str) -> bool {
    matches!(word, "true" | "false") || serde_json::from_str::<serde_json::Number>(word).is_ok()
}

#[cfg(any(test, fuzzing))]
#[path = "filter_properties.rs"]
pub mod properties;
#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
