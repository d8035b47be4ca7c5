//! The documentation at `/docs`: both documents as pages, one for each group of operations, and the
//! table of error codes; `/llms.txt` lists them for programs that read. They run no script.
//!
//! | file | what |
//! |---|---|
//! | `parts` | an operation and a schema as HTML |
//! | `sections` | which schema stands on which page |
//!
//! INVARIANT: text from a document is escaped where it becomes HTML.

mod parts;
mod sections;

use std::fmt::Write as _;

use cardswitch_wire::error_codes::ERROR_CODES;
use serde_json::Value;

use self::parts::{Links, escaped, operation, paragraphs, schema, text};
use self::sections::{Section, sections};
use super::DocumentedDoor;

/// A page of the documentation.
#[derive(Debug)]
pub(super) struct DocPage {
    /// Below `/docs/`; blank for the first.
    pub(super) slug: String,
    pub(super) title: String,
    /// The words of its link; blank for pages that are reached from others only.
    pub(super) group: &'static str,
    /// Its content, escaped.
    pub(super) html: String,
}

/// The group of pages about `/v1`.
const COMPANY: &str = "API";
/// The group of pages about the network door.
const NETWORK: &str = "Network API";
/// The group of pages about both.
const BOTH: &str = "Reference";

/// Every page, in the order in which they are listed.
pub(super) fn pages(company: &Value, network: &Value) -> Vec<DocPage> {
    let mut pages = vec![first_page(company)];
    pages.extend(pages_of(company, DocumentedDoor::Company));
    pages.push(network_page(network));
    pages.extend(pages_of(network, DocumentedDoor::Network));
    pages.push(errors_page());
    pages
}

pub(super) fn path_of(slug: &str) -> String {
    if slug.is_empty() { "/docs".to_owned() } else { format!("/docs/{slug}") }
}

fn first_page(document: &Value) -> DocPage {
    let mut html = String::from(
        "<header class=\"head\"><h1>API documentation</h1></header>\n<section class=\"sheet\">",
    );
    html.push_str(&paragraphs(&document["info"]["description"]));
    let base = escaped(text(&document["servers"][0]["url"]));
    html.push_str(&format!(
        "<dl><dt>Base URL</dt><dd><code>{base}</code></dd>\
         <dt>OpenAPI 3.1</dt><dd><a href=\"/openapi.json\">/openapi.json</a>, \
         <a href=\"/network/v1/openapi.json\">/network/v1/openapi.json</a></dd>\
         <dt>For language models</dt><dd><a href=\"/llms.txt\">/llms.txt</a></dd>\
         <dt>Errors</dt><dd><a href=\"/docs/errors\">every code</a>; <code>detail.doc_url</code> of \
         an answer leads to its line</dd></dl></section>\n"
    ));
    html.push_str(&index(document, DocumentedDoor::Company));
    DocPage { slug: String::new(), title: "API documentation".to_owned(), group: COMPANY, html }
}

fn network_page(document: &Value) -> DocPage {
    let title = "Network API";
    let mut html =
        format!("<header class=\"head\"><h1>{title}</h1></header>\n<section class=\"sheet\">");
    html.push_str(&paragraphs(&document["info"]["description"]));
    html.push_str("</section>\n");
    html.push_str(&index(document, DocumentedDoor::Network));
    DocPage { slug: "network".to_owned(), title: title.to_owned(), group: NETWORK, html }
}

/// The pages of a door with what each is about.
fn index(document: &Value, door: DocumentedDoor) -> String {
    let mut html = String::from(
        "<section class=\"sheet\" aria-labelledby=\"pages\"><h2 id=\"pages\">Resources</h2><ul class=\"rows\">\n",
    );
    for Section { slug, title, about, .. } in sections(document, door) {
        html.push_str(&format!(
            "<li><p><a href=\"{}\">{}</a><br><span class=\"soft\">{}</span></p></li>\n",
            path_of(&slug),
            escaped(&title),
            escaped(&about)
        ));
    }
    html.push_str("</ul></section>\n");
    html
}

fn pages_of(document: &Value, door: DocumentedDoor) -> Vec<DocPage> {
    let sections = sections(document, door);
    let links = Links::new(&sections);
    let group = if door == DocumentedDoor::Company { COMPANY } else { NETWORK };
    let page = |section: &Section| {
        let title = escaped(&section.title);
        let mut html = format!(
            "<header class=\"head\"><div><h1>{title}</h1><p class=\"soft\">{}</p></div></header>\n",
            escaped(&section.about)
        );
        let operations = section.operations(document);
        if operations.len() > 1 {
            html.push_str("<nav class=\"doc-index\" aria-label=\"Operations\"><ul>");
            for shown in &operations {
                html.push_str(&parts::index_line(shown));
            }
            html.push_str("</ul></nav>\n");
        }
        operations.iter().for_each(|shown| operation(&mut html, shown, (document, &links)));
        if !section.schemas.is_empty() {
            html.push_str("<h2>Schemas</h2>\n");
        }
        for name in &section.schemas {
            schema(&mut html, (name, &document["components"]["schemas"][name]), &links);
        }
        let html = html.replace(&format!("href=\"{}#", path_of(&section.slug)), "href=\"#");
        DocPage { slug: section.slug.clone(), title: section.title.clone(), group, html }
    };
    sections.iter().map(page).collect()
}

fn errors_page() -> DocPage {
    let mut html = String::from(
        "<header class=\"head\"><div><h1>Errors</h1><p class=\"soft\">A failed request answers \
         <code>detail</code> with <code>code</code>, <code>message</code>, <code>param</code>, \
         <code>errors</code> (one entry for each wrong field) and <code>doc_url</code>, which leads \
         here.</p></div></header>\n<div class=\"table stack doc\" role=\"region\" aria-label=\"Error codes\" tabindex=\"0\">\n\
         <table><thead><tr><th scope=\"col\">Code</th><th scope=\"col\">Status</th>\
         <th scope=\"col\">Meaning</th></tr></thead><tbody>\n",
    );
    for known in ERROR_CODES {
        // INVARIANT: writing to a string cannot fail.
        let _ = writeln!(
            html,
            "<tr id=\"{code}\"><td class=\"at-name\"><a href=\"#{code}\"><code>{code}</code></a></td>\
             <td class=\"at-amount\">{status}</td><td>{meaning}</td></tr>",
            code = known.code,
            status = known.status,
            meaning = parts::with_code(known.meaning),
        );
    }
    html.push_str("</tbody></table></div>\n");
    DocPage { slug: "errors".to_owned(), title: "Errors".to_owned(), group: BOTH, html }
}

/// The text of `/llms.txt`: a list of the documents, as https://llmstxt.org proposes.
pub(super) fn llms_text(company: &Value, network: &Value, base: &str) -> String {
    let mut out = format!(
        "# cardswitch\n\n> {}\n\n",
        text(&company["info"]["description"]).replace("\n\n", "\n>\n> ")
    );
    out.push_str(
        "Errors: `{\"detail\": {\"code\", \"message\", \"param\", \"errors\", \"doc_url\"}}`. Lists: \
         `{\"count\", \"next\", \"previous\", \"results\"}`, `limit` and `offset`. Repeatable writes: the \
         header `Idempotency-Key`. A PUT changes what it names and keeps the rest.\n",
    );
    for (head, document, door) in [
        ("API", company, DocumentedDoor::Company),
        ("Network API", network, DocumentedDoor::Network),
    ] {
        let _ = write!(out, "\n## {head}\n\n");
        for section in sections(document, door) {
            let Section { slug, title, about, .. } = &section;
            let _ = writeln!(out, "- [{title}]({base}{}): {about}", path_of(slug));
            for shown in section.operations(document) {
                let _ = writeln!(
                    out,
                    "  - `{} {}`: {}",
                    shown.method.to_uppercase(),
                    shown.path,
                    text(&shown.operation["summary"])
                );
            }
        }
    }
    let _ = write!(
        out,
        "\n## Reference\n\n- [OpenAPI 3.1 of the API]({base}/openapi.json)\n\
         - [OpenAPI 3.1 of the network API]({base}/network/v1/openapi.json)\n\
         - [Errors]({base}/docs/errors): every code with its status and meaning\n"
    );
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_from_the_document_becomes_markup() {
        let document = json!({
            "info": {"title": "<b>", "description": "a & `<c>`"},
            "tags": [{"name": "T", "description": "<q>"}],
            "paths": {"/v1/<x>": {"get": {"operationId": "x", "summary": "\"<i>\"", "tags": ["T"],
                "responses": {"200": {"description": "<u>", "content": {"application/json": {
                    "schema": {"type": "object"}, "example": "<s>"}}}}}}},
        });
        let pages = pages(&document, &document);
        for markup in ["<b>", "<c>", "<x>", "<i>", "<u>", "<s>", "<q>"] {
            for page in &pages {
                assert!(!page.html.contains(markup), "{markup} in {}", page.html);
            }
        }
        assert!(pages[0].html.contains("a &amp; <code>&lt;c&gt;</code>"), "{}", pages[0].html);
    }
}
