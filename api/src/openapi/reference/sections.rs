//! The page of each operation and schema. An operation stands on the page of its tag, or of its
//! resource where a tag has many. A schema stands on the first page of the only tag that uses it;
//! shared schemas stand on a page of their own.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::super::DocumentedDoor;
use super::super::schemas::{referred_to, schemas_among};
use super::parts::text;

/// The methods in the order in which a path's operations are shown.
const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

/// An operation with where it is.
pub(super) struct OperationEntry<'a> {
    pub(super) path: &'a str,
    pub(super) method: &'a str,
    pub(super) operation: &'a Value,
}

/// A page's part of a document.
pub(super) struct Section {
    pub(super) slug: String,
    pub(super) title: String,
    pub(super) about: String,
    /// The tag whose operations it has; none for shared schemas.
    pub(super) tag: Option<String>,
    /// The only resource of the tag that it has, by its name in paths; all where there is none.
    resource: Option<String>,
    pub(super) schemas: Vec<String>,
}

impl Section {
    pub(super) fn operations<'a>(&self, document: &'a Value) -> Vec<OperationEntry<'a>> {
        let mut shown = operations_of(document, self.tag.as_deref());
        if let Some(resource) = &self.resource {
            shown.retain(|shown| resource_of(shown.path) == resource);
        }
        shown
    }
}

/// The resource that a path is of, such as `cards`.
fn resource_of(path: &str) -> &str {
    path.split('/').nth(2).unwrap_or_default()
}

/// How many operations stand on one page; of more each resource has its own.
const OPERATIONS_MAX: usize = 12;

/// The sections of a document, in the order of its tags; shared schemas come last.
pub(super) fn sections(document: &Value, door: DocumentedDoor) -> Vec<Section> {
    let prefix = if door == DocumentedDoor::Company { "" } else { "network-" };
    let tags = document["tags"].as_array().map_or(&[][..], Vec::as_slice);
    let tags: Vec<_> = tags
        .iter()
        .filter(|tag| !operations_of(document, Some(text(&tag["name"]))).is_empty())
        .collect();
    let mut owners: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for tag in &tags {
        let name = text(&tag["name"]);
        for schema in schemas_of_tag(document, name) {
            owners.entry(schema).or_default().insert(name);
        }
    }
    let all = document["components"]["schemas"].as_object().into_iter().flat_map(Map::keys);
    let owned = |tag: Option<&str>| -> Vec<String> {
        let is_here = |name: &&String| match owners.get(*name) {
            Some(tags) if tags.len() == 1 => tag.is_some_and(|tag| tags.contains(tag)),
            _ => tag.is_none(),
        };
        all.clone().filter(is_here).cloned().collect()
    };
    let mut sections = Vec::new();
    for tag in &tags {
        let (name, about) = (text(&tag["name"]), text(&tag["description"]));
        let slug = |title: &str| format!("{prefix}{}", title.to_lowercase().replace(' ', "-"));
        let section = |title: &str, resource: Option<&str>| Section {
            slug: slug(title),
            title: title.to_owned(),
            about: about.to_owned(),
            tag: Some(name.to_owned()),
            resource: resource.map(str::to_owned),
            schemas: Vec::new(),
        };
        let first = sections.len();
        let operations = operations_of(document, Some(name));
        if operations.len() > OPERATIONS_MAX {
            let mut resources: Vec<_> =
                operations.iter().map(|shown| resource_of(shown.path)).collect();
            resources.dedup();
            let pages = resources.into_iter().map(|resource| {
                let title = resource.get(..1).unwrap_or_default().to_uppercase();
                let rest = resource.get(1..).unwrap_or_default();
                section(&format!("{title}{rest}"), Some(resource))
            });
            sections.extend(pages);
        } else {
            sections.push(section(name, None));
        }
        if let Some(section) = sections.get_mut(first) {
            section.schemas = owned(Some(name));
        }
    }
    let shared = owned(None);
    if !shared.is_empty() {
        sections.push(Section {
            slug: format!("{prefix}schemas"),
            title: "Shared schemas".to_owned(),
            about: "Objects that several resources use.".to_owned(),
            tag: None,
            resource: None,
            schemas: shared,
        });
    }
    sections
}

fn operations_of<'a>(document: &'a Value, tag: Option<&str>) -> Vec<OperationEntry<'a>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, item)| {
        let methods = METHODS.into_iter();
        methods.filter_map(move |method| {
            Some(OperationEntry { path, method, operation: item.get(method)? })
        })
    });
    all.filter(|shown| tag.is_some_and(|tag| shown.operation["tags"][0] == tag)).collect()
}

/// The names of all schemas that operations of a tag refer to. The schemas of failures, common to
/// all operations, are left out.
fn schemas_of_tag(document: &Value, tag: &str) -> BTreeSet<String> {
    let operations = operations_of(document, Some(tag));
    let operations = operations.iter().map(|shown| shown.operation).collect();
    let follows = |place: &str| match place.strip_prefix("/components/schemas/") {
        Some(name) => name != "Error",
        None => place.starts_with("/components/parameters/"),
    };
    schemas_among(referred_to(document, operations, follows))
}
