//! Filters of users: `userName eq "ada@example.com" and (active eq true or not (title pr))`.
//! Source: RFC 7644, 3.4.2.2.
//!
//! A filter is read once, into steps in the order in which a stack of truths takes them. So neither
//! reading nor asking goes deeper the deeper a client nests. `and` binds before `or`. The filter in
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
pub(super) struct Filter {
    steps: Vec<FilterStep>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FilterStep {
    Ask(Test),
    And,
    Or,
    Not,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Test {
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
        let mut parser = Parser::default();
        let mut tokens = Tokens { text };
        while let Some(token) = tokens.next()? {
            parser.take(token, &mut tokens)?;
        }
        parser.finish()
    }

    /// Whether somebody is wanted whose fields have these values.
    pub(super) fn accepts<'a>(
        &self,
        mut value_of: impl FnMut(Field) -> Option<FieldValue<'a>>,
    ) -> bool {
        let mut truths = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let truth = match step {
                FilterStep::Ask(test) => test.accepts(test.field.and_then(&mut value_of)),
                FilterStep::Not => !pop(&mut truths),
                FilterStep::And => pop(&mut truths) & pop(&mut truths),
                FilterStep::Or => pop(&mut truths) | pop(&mut truths),
            };
            truths.push(truth);
        }
        pop(&mut truths)
    }

    /// The field and the text, where the filter asks for one text and nothing else.
    pub(super) fn sole_text(&self) -> Option<(Field, &str)> {
        let [FilterStep::Ask(Test { field: Some(field), operator: Operator::Equal, operand })] =
            self.steps.as_slice()
        else {
            return None;
        };
        match operand {
            Operand::Text(text) | Operand::ExactText(text) => Some((*field, text)),
            Operand::Nothing | Operand::Flag(_) | Operand::Time(_) => None,
        }
    }
}

/// INVARIANT: the parser makes no step without the truths that it takes.
fn pop(truths: &mut Vec<bool>) -> bool {
    debug_assert!(!truths.is_empty());
    truths.pop().unwrap_or(false)
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

/// An operator or an opening piece that waits for the end of its operand.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OpenOperator {
    And,
    Or,
    Group,
    NotGroup,
    List(String),
}

/// Turns pieces into steps.
#[derive(Debug, Default)]
struct Parser {
    steps: Vec<FilterStep>,
    waiting: Vec<OpenOperator>,
    tests: usize,
    /// Whether a whole expression stands before the next piece.
    is_after_operand: bool,
}

impl Parser {
    fn take(&mut self, token: Token<'_>, rest: &mut Tokens<'_>) -> Result<(), ApiError> {
        match (self.is_after_operand, token) {
            (false, Token::Open) => self.open(OpenOperator::Group),
            (false, Token::Word(name)) if name.eq_ignore_ascii_case("not") => {
                match rest.required("a parenthesis")? {
                    Token::Open => self.open(OpenOperator::NotGroup),
                    _ => Err(invalid("needs a parenthesis after `not`")),
                }
            }
            (false, Token::Word(name)) => self.ask(name, rest),
            (true, Token::Word(word)) if word.eq_ignore_ascii_case("and") => {
                self.join(OpenOperator::And);
                Ok(())
            }
            (true, Token::Word(word)) if word.eq_ignore_ascii_case("or") => {
                self.join(OpenOperator::Or);
                Ok(())
            }
            (true, Token::Close) => match self.close()? {
                OpenOperator::NotGroup => {
                    self.steps.push(FilterStep::Not);
                    Ok(())
                }
                OpenOperator::Group => Ok(()),
                _ => Err(invalid("has parentheses and brackets that cross")),
            },
            (true, Token::CloseList) => match self.close()? {
                OpenOperator::List(_) => Ok(()),
                _ => Err(invalid("has parentheses and brackets that cross")),
            },
            (true, _) => Err(invalid("needs `and` or `or` between two comparisons")),
            (false, _) => Err(invalid("needs a comparison where there is none")),
        }
    }

    fn open(&mut self, what: OpenOperator) -> Result<(), ApiError> {
        let is_list = |waiting: &OpenOperator| matches!(waiting, OpenOperator::List(_));
        if is_list(&what) && self.waiting.iter().any(is_list) {
            return Err(invalid("has brackets within brackets"));
        }
        let is_open =
            |waiting: &&OpenOperator| !matches!(waiting, OpenOperator::And | OpenOperator::Or);
        if self.waiting.iter().filter(is_open).count() >= DEPTH_MAX {
            return Err(invalid(format!("is nested more than {DEPTH_MAX} deep")));
        }
        self.waiting.push(what);
        self.is_after_operand = false;
        Ok(())
    }

    /// Ends what was opened last, which is given back.
    fn close(&mut self) -> Result<OpenOperator, ApiError> {
        while let Some(waiting) = self.waiting.pop() {
            match waiting {
                OpenOperator::And => self.steps.push(FilterStep::And),
                OpenOperator::Or => self.steps.push(FilterStep::Or),
                opened => return Ok(opened),
            }
        }
        Err(invalid("closes what was not opened"))
    }

    fn join(&mut self, what: OpenOperator) {
        let binds_first = |waiting: &OpenOperator| match waiting {
            OpenOperator::And => true,
            OpenOperator::Or => what == OpenOperator::Or,
            _ => false,
        };
        while let Some(waiting) = self.waiting.pop_if(|waiting| binds_first(waiting)) {
            self.steps.push(if waiting == OpenOperator::And {
                FilterStep::And
            } else {
                FilterStep::Or
            });
        }
        self.waiting.push(what);
        self.is_after_operand = false;
    }

    /// A comparison, or what stands in brackets after a list.
    fn ask(&mut self, name: &str, rest: &mut Tokens<'_>) -> Result<(), ApiError> {
        let word = match rest.required("an operator")? {
            Token::OpenList => return self.open(OpenOperator::List(name.to_owned())),
            Token::Word(word) => word,
            _ => return Err(invalid(format!("needs an operator after `{}`", shorten(name)))),
        };
        let known = OPERATORS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
        let unknown = || invalid(format!("has the unknown operator `{}`", shorten(word)));
        let operator = known.ok_or_else(unknown)?.1;
        let value = match operator {
            Operator::Present => None,
            _ => Some(rest.required("a value")?),
        };
        self.tests += 1;
        if self.tests > TESTS_MAX {
            return Err(invalid(format!("has more than {TESTS_MAX} comparisons")));
        }
        let test = test(&self.whole_name(name), operator, value)?;
        self.steps.push(FilterStep::Ask(test));
        self.is_after_operand = true;
        Ok(())
    }

    /// The name with that of the list in whose brackets it stands.
    fn whole_name(&self, name: &str) -> String {
        let list = self.waiting.iter().rev().find_map(|waiting| match waiting {
            OpenOperator::List(list) => Some(list),
            _ => None,
        });
        list.map_or_else(|| name.to_owned(), |list| format!("{list}.{name}"))
    }

    fn finish(mut self) -> Result<Filter, ApiError> {
        if !self.is_after_operand {
            return Err(invalid("ends where a comparison is expected"));
        }
        while let Some(waiting) = self.waiting.pop() {
            self.steps.push(match waiting {
                OpenOperator::And => FilterStep::And,
                OpenOperator::Or => FilterStep::Or,
                _ => return Err(invalid("opens what is not closed")),
            });
        }
        Ok(Filter { steps: self.steps })
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
