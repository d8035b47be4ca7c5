//! A page of the manual, made from the definition of a command: everything that `--help` shows, in
//! the sections that readers of manuals look for. Source: man(7).

use std::ffi::OsStr;

use clap::builder::PossibleValue;
use clap::{Arg, Command};
use roff::{Inline, Roff, bold, roman};

/// The section of user commands.
const SECTION: &str = "1";

/// The name of a command's page, such as `cardswitch-token-add`.
/// `command` is built, as `Command::build` does.
pub(super) fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// The file that a command's page is kept in.
pub(super) fn page_file(command: &Command) -> String {
    format!("{}.{SECTION}", page_name(command))
}

/// The page of a command, below `parent` where it is a command of another one.
/// `date` is that of the page, as `2026-03-01`.
pub(super) fn render_page(command: &Command, parent: Option<&Command>, date: &str) -> String {
    let mut page = Roff::new();
    let source = format!("cardswitch {}", env!("CARGO_PKG_VERSION"));
    let title = page_name(command).to_uppercase();
    page.control("TH", [title.as_str(), SECTION, date, &source, "cardswitch manual"]);
    let about = command.get_about().map(one_line).unwrap_or_default();
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{} - {about}", page_name(command)))]);
    page.control("SH", ["SYNOPSIS"]);
    let usage = one_line(command.clone().render_usage());
    page.text([bold(usage.trim_start_matches("Usage: "))]);
    page.control("SH", ["DESCRIPTION"]);
    let description = command.get_long_about().map(one_line).unwrap_or(about);
    page.text([roman(format!("{}.", description.trim_end_matches('.')))]);
    render_options(&mut page, command);
    render_commands(&mut page, command);
    page.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in [("0", "It worked."), ("1", "It failed."), ("2", "It was used wrongly.")]
    {
        page.control("TP", []).text([bold(code)]).text([roman(meaning)]);
    }
    render_neighbours(&mut page, command, parent);
    page.render()
}

fn render_options(page: &mut Roff, command: &Command) {
    let mut arguments: Vec<&Arg> =
        command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    arguments.sort_by_key(|arg| !arg.is_positional());
    if arguments.is_empty() {
        return;
    }
    page.control("SH", ["OPTIONS"]);
    for argument in arguments {
        page.control("TP", []);
        page.text([bold(head_of(argument))]);
        let help = argument.get_long_help().or_else(|| argument.get_help());
        let mut facts: Vec<Vec<Inline>> =
            help.map(|help| vec![roman(one_line(help))]).into_iter().collect();
        facts.extend(default_of(argument));
        facts.extend(environment_of(argument));
        let values = values_of(argument);
        if !values.is_empty() {
            facts.push(vec![roman("Possible values:")]);
        }
        for (place, fact) in facts.into_iter().enumerate() {
            if place > 0 {
                page.control("br", []);
            }
            page.text(fact);
        }
        render_values(page, &values);
    }
}

/// The flags of an argument and the names of its values.
fn head_of(argument: &Arg) -> String {
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(_)) => format!("-{short}, {argument}"),
        _ => argument.to_string(),
    }
}

fn default_of(argument: &Arg) -> Option<Vec<Inline>> {
    let values: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let is_shown = !argument.is_hide_default_value_set() && argument.get_action().takes_values();
    let text = values.join(" ");
    (is_shown && !text.is_empty()).then(|| vec![roman("Default: "), bold(text)])
}

fn environment_of(argument: &Arg) -> Option<Vec<Inline>> {
    let name =
        argument.get_env().filter(|_| !argument.is_hide_env_set()).and_then(OsStr::to_str)?;
    Some(vec![roman("Environment: "), bold(name)])
}

fn values_of(argument: &Arg) -> Vec<PossibleValue> {
    if argument.is_hide_possible_values_set() || !argument.get_action().takes_values() {
        return Vec::new();
    }
    let values = argument.get_possible_values().into_iter();
    values.filter(|value| !value.is_hide_set()).collect()
}

fn render_values(page: &mut Roff, values: &[PossibleValue]) {
    if values.is_empty() {
        return;
    }
    page.control("RS", []);
    for value in values {
        page.control("IP", ["\\(bu", "2"]);
        let help = value.get_help().map(|help| roman(format!(": {}", one_line(help))));
        page.text([bold(value.get_name())].into_iter().chain(help).collect::<Vec<_>>());
    }
    page.control("RE", []);
}

fn render_commands(page: &mut Roff, command: &Command) {
    if command.has_subcommands() {
        page.control("SH", ["COMMANDS"]);
    }
    for inner in shown_commands(command) {
        page.control("TP", []).text(reference_to(inner));
        page.text([roman(inner.get_about().map(one_line).unwrap_or_default())]);
    }
}

/// The pages above and below.
fn render_neighbours(page: &mut Roff, command: &Command, parent: Option<&Command>) {
    let mut text = Vec::new();
    for neighbour in parent.into_iter().chain(shown_commands(command)) {
        if !text.is_empty() {
            text.push(roman(", "));
        }
        text.extend(reference_to(neighbour));
    }
    if !text.is_empty() {
        page.control("SH", ["SEE ALSO"]).text(text);
    }
}

/// The commands of a command that have pages.
pub(super) fn shown_commands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set())
}

fn reference_to(command: &Command) -> Vec<Inline> {
    vec![bold(page_name(command)), roman(format!("({SECTION})"))]
}

/// A text in one line: the viewer of the page wraps it.
fn one_line(text: impl ToString) -> String {
    text.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
