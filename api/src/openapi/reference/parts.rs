//! An operation and a schema as HTML.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::path_of;
use super::sections::{OperationEntry, Section};

/// Adds a line to a page.
macro_rules! line {
    ($page:expr, $($content:tt)+) => {{
        // INVARIANT: writing to a string cannot fail.
        let written = writeln!($page, $($content)+);
        debug_assert!(written.is_ok());
    }};
}

/// The page of each schema.
pub(super) struct Links(BTreeMap<String, String>);

impl Links {
    pub(super) fn new(sections: &[Section]) -> Self {
        let of_section = |section: &Section| {
            let path = path_of(&section.slug);
            let schemas = section.schemas.clone().into_iter();
            schemas.map(move |name| (name, path.clone())).collect::<Vec<_>>()
        };
        Self(sections.iter().flat_map(of_section).collect())
    }

    /// A link to a schema by a reference of the document.
    fn to(&self, reference: &str) -> String {
        let name = reference.rsplit('/').next().unwrap_or_default();
        let path = self.0.get(name).map_or("", String::as_str);
        format!("<a href=\"{path}#schema-{name}\">{name}</a>")
    }
}

/// The line of an operation in the list at the head of a page.
pub(super) fn index_line(
    OperationEntry { operation, method, path }: &OperationEntry<'_>,
) -> String {
    let (id, summary) = (text(&operation["operationId"]), escaped(text(&operation["summary"])));
    let name = method.to_uppercase();
    format!(
        "<li><a href=\"#{id}\"><b class=\"method\">{name}</b> <code>{}</code></a> \
         <span class=\"soft\">{summary}</span></li>\n",
        breakable(path)
    )
}

/// An operation: its summary, parameters, body and answers. Failures that all share are one line.
pub(super) fn operation(
    page: &mut String,
    shown: &OperationEntry<'_>,
    (document, links): (&Value, &Links),
) {
    let OperationEntry { path, method, operation } = shown;
    let id = text(&operation["operationId"]);
    let name = method.to_uppercase();
    line!(
        page,
        "<section class=\"sheet doc\" id=\"{id}\"><h2>{}</h2>\
             <p class=\"doc-path\"><b class=\"method\">{name}</b> <code>{}</code></p>{}",
        escaped(text(&operation["summary"]).trim_end_matches('.')),
        breakable(path),
        paragraphs(&operation["description"])
    );
    parameters(page, operation, (document, links));
    if let Some(body) = operation.get("requestBody") {
        page.push_str("<h3>Request body</h3>\n");
        content(page, body, links);
    }
    page.push_str("<h3>Answers</h3>\n");
    let mut failures = Vec::new();
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        if response.get("$ref").is_some() && !status.starts_with('2') {
            failures.push(status.as_str());
            continue;
        }
        let resolved = resolve(response, document);
        line!(
            page,
            "<p><strong>{status}</strong> {}</p>",
            with_code(text(&resolved["description"]))
        );
        content(page, resolved, links);
    }
    if !failures.is_empty() {
        let statuses = failures.join(", ");
        line!(page, "<p><strong>{statuses}</strong> <a href=\"/docs/errors\">Errors</a></p>");
    }
    page.push_str("</section>\n");
}

fn resolve<'a>(value: &'a Value, document: &'a Value) -> &'a Value {
    let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

fn parameters(page: &mut String, operation: &Value, (document, links): (&Value, &Links)) {
    let given = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
    if given.is_empty() {
        return;
    }
    page.push_str("<h3>Parameters</h3>\n");
    let label = format!("Parameters of {}", text(&operation["operationId"]));
    page.push_str(&table_head(&label, ["Name", "In", "Type", "Meaning"]));
    for parameter in given.iter().map(|parameter| resolve(parameter, document)) {
        let required = if parameter["required"] == true { ", required" } else { "" };
        line!(
            page,
            "<tr><td class=\"at-name\"><code>{}</code></td><td class=\"soft\">{}{required}</td>\
                 <td>{}</td><td>{}</td></tr>",
            breakable(text(&parameter["name"])),
            escaped(text(&parameter["in"])),
            kind(&parameter["schema"], links),
            with_code(text(&parameter["description"]))
        );
    }
    page.push_str("</tbody></table></div>\n");
}

fn content(page: &mut String, body: &Value, links: &Links) {
    for (media_type, media) in body["content"].as_object().into_iter().flatten() {
        line!(
            page,
            "<p><code>{}</code>: {}</p>",
            escaped(media_type),
            kind(&media["schema"], links)
        );
        if let Some(example) = media.get("example") {
            let example = escaped(&format!("{example:#}"));
            line!(
                page,
                "<details class=\"fold\"><summary>Example</summary>\
                     <pre tabindex=\"0\">{example}</pre></details>"
            );
        }
    }
}

/// A schema with its fields.
pub(super) fn schema(page: &mut String, (name, shown): (&str, &Value), links: &Links) {
    line!(
        page,
        "<section class=\"sheet doc\" id=\"schema-{name}\"><h3>{}</h3>{}",
        breakable(name),
        paragraphs(&shown["description"])
    );
    let parts = shown["allOf"].as_array().map_or(std::slice::from_ref(shown), Vec::as_slice);
    for part in parts {
        let Some(properties) = part["properties"].as_object() else {
            line!(page, "<p>{}</p>", kind(part, links));
            continue;
        };
        let required = part["required"].as_array().map_or(&[][..], Vec::as_slice);
        page.push_str(&table_head(name, ["Field", "", "Type", "Meaning"]));
        for (field, schema) in properties {
            let mark = if required.iter().any(|name| name == field) { "required" } else { "" };
            line!(
                page,
                "<tr><td class=\"at-name\"><code>{}</code></td><td class=\"soft\">{mark}</td>\
                     <td>{}</td><td>{}</td></tr>",
                breakable(field),
                kind(schema, links),
                with_code(text(&schema["description"]))
            );
        }
        page.push_str("</tbody></table></div>\n");
    }
    page.push_str("</section>\n");
}

/// The head of a table that can be scrolled by keyboard where it is wide.
fn table_head(label: &str, columns: [&str; 4]) -> String {
    let cells = columns.map(|name| match name {
        "" => "<th scope=\"col\"><span class=\"hidden\">Required</span></th>".to_owned(),
        name => format!("<th scope=\"col\">{name}</th>"),
    });
    format!(
        "<div class=\"table stack\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\
         <table><thead><tr>{}</tr></thead><tbody>\n",
        escaped(label),
        cells.concat()
    )
}

/// The kind of a value, in a few words of HTML.
fn kind(schema: &Value, links: &Links) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return links.to(reference);
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> = words.iter().map(|word| escaped(&word.to_string())).collect();
        return words.join(" | ");
    }
    let variants = ["oneOf", "anyOf", "allOf"].iter().find_map(|key| schema[key].as_array());
    let plain = |schema: &Value| match &schema["type"] {
        Value::Array(types) => types.iter().map(text).collect::<Vec<_>>().join(" or "),
        _ if schema.get("$ref").is_some() => links.to(text(&schema["$ref"])),
        kind => text(kind).to_owned(),
    };
    if let Some(variants) = variants {
        return variants.iter().map(plain).collect::<Vec<_>>().join(" or ");
    }
    let mut words = plain(schema);
    if let Some(items) = schema.get("items") {
        words = format!("{words} of {}", plain(items));
    }
    for (key, label) in [
        ("format", ""),
        ("pattern", ""),
        ("minimum", "from "),
        ("maximum", "to "),
        ("maxLength", "at most "),
        ("maxItems", "at most "),
        ("default", "default "),
    ] {
        if let Some(value) = schema.get(key) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            words.push_str(&format!(", {label}{}", escaped(&value).replace('|', "|<wbr>")));
        }
    }
    words
}

/// A name or path that may break behind its joints, and nowhere else.
fn breakable(name: &str) -> String {
    escaped(name).replace('_', "_<wbr>").replace('/', "/<wbr>")
}

/// The paragraphs of a description; text between backticks is code.
pub(super) fn paragraphs(description: &Value) -> String {
    let paragraphs = text(description).split("\n\n").filter(|text| !text.is_empty());
    paragraphs.map(|text| format!("<p>{}</p>", with_code(text))).collect()
}

/// A text with what stands between backticks as code.
pub(super) fn with_code(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(place, part)| match place % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    });
    parts.collect()
}

/// A value as text; blank where it is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text as HTML shows it between tags; attributes hold names of the document alone.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
