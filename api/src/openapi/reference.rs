//! The reference at `/docs`: a document as one page of plain HTML. It runs no script and loads
//! nothing but its style, so it works offline, on paper and under a strict content policy.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::Door;

/// The style of the pages.
pub(super) const STYLE: &str = include_str!("reference.css");

/// The methods in the order in which a path's operations are shown.
const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

/// The page of a document.
#[must_use]
pub(super) fn page(document: &Value, door: Door) -> String {
    let title = escaped(text(&document["info"]["title"]));
    let (own, other) = match door {
        Door::Company => ("/openapi.json", "<a href=\"/docs/network\">Network door</a>"),
        Door::Network => ("/network/v1/openapi.json", "<a href=\"/docs\">Company API</a>"),
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <link rel=\"stylesheet\" href=\"/docs/reference.css\"></head>\n<body>\n<nav>\n\
         <p><a href=\"#top\"><b>{title}</b></a></p>\
         <p><a href=\"{own}\">OpenAPI 3.1</a> · {other}</p>\n"
    );
    let tags = document["tags"].as_array().map_or(&[][..], Vec::as_slice);
    let groups: Vec<_> = tags
        .iter()
        .map(|tag| (text(&tag["name"]), operations_of(document, text(&tag["name"]))))
        .filter(|(_, operations)| !operations.is_empty())
        .collect();
    for (tag, operations) in &groups {
        contents(&mut page, tag, operations);
    }
    page.push_str("<p>Schemas</p>\n<ul>");
    for name in schemas_of(document).keys() {
        line(&mut page, format_args!("<li><a href=\"#schema-{name}\">{name}</a></li>"));
    }
    page.push_str("</ul>\n</nav>\n<main id=\"top\">\n");
    line(
        &mut page,
        format_args!("<h1>{title}</h1>{}", paragraphs(&document["info"]["description"])),
    );
    line(
        &mut page,
        format_args!(
            "<p>Base URL: <code>{}</code></p>",
            escaped(text(&document["servers"][0]["url"]))
        ),
    );
    for (tag, operations) in &groups {
        line(&mut page, format_args!("<h2>{}</h2>", escaped(tag)));
        operations.iter().for_each(|shown| operation(&mut page, shown, document));
    }
    page.push_str("<h2>Schemas</h2>\n");
    for (name, shown) in schemas_of(document) {
        schema(&mut page, name, shown);
    }
    page.push_str("</main>\n</body></html>\n");
    page
}

/// An operation with where it is.
struct Shown<'a> {
    path: &'a str,
    method: &'a str,
    operation: &'a Value,
}

fn operations_of<'a>(document: &'a Value, tag: &str) -> Vec<Shown<'a>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, item)| {
        let methods = METHODS.into_iter();
        methods.filter_map(move |method| Some(Shown { path, method, operation: item.get(method)? }))
    });
    all.filter(|shown| shown.operation["tags"][0] == tag).collect()
}

fn schemas_of(document: &Value) -> &Map<String, Value> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    document["components"]["schemas"].as_object().unwrap_or(&NONE)
}

fn contents(page: &mut String, tag: &str, operations: &[Shown<'_>]) {
    line(page, format_args!("<p>{}</p>\n<ul>", escaped(tag)));
    for Shown { operation, method, .. } in operations {
        let (id, summary) = (text(&operation["operationId"]), escaped(text(&operation["summary"])));
        line(page, format_args!("<li class=\"{method}\"><a href=\"#{id}\">{summary}</a></li>"));
    }
    page.push_str("</ul>\n");
}

fn operation(page: &mut String, shown: &Shown<'_>, document: &Value) {
    let Shown { path, method, operation } = shown;
    let id = text(&operation["operationId"]);
    let name = method.to_uppercase();
    line(
        page,
        format_args!(
            "<section id=\"{id}\"><h3><a href=\"#{id}\"><b class=\"{method}\">{name}</b> <code>{}</code></a></h3>",
            escaped(path)
        ),
    );
    line(
        page,
        format_args!(
            "<p>{}</p>{}",
            escaped(text(&operation["summary"])),
            paragraphs(&operation["description"])
        ),
    );
    parameters(page, operation, document);
    if let Some(body) = operation.get("requestBody") {
        page.push_str("<h4>Request body</h4>\n");
        content(page, body);
    }
    page.push_str("<h4>Answers</h4>\n");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let resolved = resolve(response, document);
        line(
            page,
            format_args!(
                "<p><b class=\"status\">{status}</b> {}</p>",
                escaped(text(&resolved["description"]))
            ),
        );
        if !response.as_object().is_some_and(|response| response.contains_key("$ref")) {
            content(page, resolved);
        }
    }
    page.push_str("</section>\n");
}

fn resolve<'a>(value: &'a Value, document: &'a Value) -> &'a Value {
    let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

fn parameters(page: &mut String, operation: &Value, document: &Value) {
    let given = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
    if given.is_empty() {
        return;
    }
    page.push_str("<h4>Parameters</h4>\n<table>\n");
    for parameter in given.iter().map(|parameter| resolve(parameter, document)) {
        let required = if parameter["required"] == true { ", required" } else { "" };
        line(
            page,
            format_args!(
                "<tr><td><code>{}</code></td><td>{}{required}</td><td>{}</td><td>{}</td></tr>",
                escaped(text(&parameter["name"])),
                text(&parameter["in"]),
                kind(&parameter["schema"]),
                escaped(text(&parameter["description"]))
            ),
        );
    }
    page.push_str("</table>\n");
}

fn content(page: &mut String, body: &Value) {
    for (media_type, media) in body["content"].as_object().into_iter().flatten() {
        line(
            page,
            format_args!("<p><code>{}</code>: {}</p>", escaped(media_type), kind(&media["schema"])),
        );
        if let Some(example) = media.get("example") {
            let example = escaped(&format!("{example:#}"));
            line(
                page,
                format_args!("<details><summary>Example</summary><pre>{example}</pre></details>"),
            );
        }
    }
}

fn schema(page: &mut String, name: &str, shown: &Value) {
    line(
        page,
        format_args!(
            "<section id=\"schema-{name}\"><h3><a href=\"#schema-{name}\">{name}</a></h3>{}",
            paragraphs(&shown["description"])
        ),
    );
    let parts = shown["allOf"].as_array().map_or(std::slice::from_ref(shown), Vec::as_slice);
    for part in parts {
        let Some(properties) = part["properties"].as_object() else {
            line(page, format_args!("<p>{}</p>", kind(part)));
            continue;
        };
        let required = part["required"].as_array().map_or(&[][..], Vec::as_slice);
        page.push_str("<table>\n");
        for (field, schema) in properties {
            let mark = if required.iter().any(|name| name == field) { "required" } else { "" };
            line(
                page,
                format_args!(
                    "<tr><td><code>{}</code></td><td>{mark}</td><td>{}</td><td>{}</td></tr>",
                    escaped(field),
                    kind(schema),
                    escaped(text(&schema["description"]))
                ),
            );
        }
        page.push_str("</table>\n");
    }
    page.push_str("</section>\n");
}

/// What a value may be, in a few words of HTML.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|text| text.rsplit('/').next()) {
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> = words.iter().map(|word| escaped(&word.to_string())).collect();
        return words.join(" | ");
    }
    let variants = ["oneOf", "anyOf", "allOf"].iter().find_map(|key| schema[key].as_array());
    let plain = |schema: &Value| match &schema["type"] {
        Value::Array(types) => types.iter().map(text).collect::<Vec<_>>().join(" or "),
        _ if schema.get("$ref").is_some() => kind_of_reference(schema),
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
            words.push_str(&format!(", {label}{}", escaped(&value)));
        }
    }
    words
}

fn kind_of_reference(schema: &Value) -> String {
    let name = schema["$ref"].as_str().and_then(|text| text.rsplit('/').next()).unwrap_or_default();
    format!("<a href=\"#schema-{name}\">{name}</a>")
}

/// The paragraphs of a description; what stands between backticks is code.
fn paragraphs(description: &Value) -> String {
    let paragraphs = text(description).split("\n\n").filter(|text| !text.is_empty());
    paragraphs.map(|text| format!("<p>{}</p>", with_code(text))).collect()
}

fn with_code(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(place, part)| match place % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    });
    parts.collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn line(page: &mut String, content: std::fmt::Arguments<'_>) {
    // INVARIANT: writing to a string cannot fail.
    let written = writeln!(page, "{content}");
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_from_the_document_becomes_markup() {
        let document = json!({
            "info": {"title": "<b>", "description": "a & `<c>`"},
            "tags": [{"name": "T"}],
            "paths": {"/v1/<x>": {"get": {"operationId": "x", "summary": "\"<i>\"", "tags": ["T"],
                "responses": {"200": {"description": "<u>", "content": {"application/json": {
                    "schema": {"type": "object"}, "example": "<s>"}}}}}}},
        });
        let page = page(&document, Door::Company);
        for markup in ["<b>", "<c>", "<x>", "<i>", "<u>", "<s>"] {
            let inside = page.replace("<p><a href=\"#top\"><b>", "");
            assert!(!inside.contains(markup), "{markup} in {page}");
        }
        assert!(page.contains("a &amp; <code>&lt;c&gt;</code>"), "{page}");
    }
}
