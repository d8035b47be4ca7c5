//! The files every page needs, part of the program. Their names carry a hash of their content, so
//! browsers may keep them for ever and still get the new ones after an update.

use std::sync::LazyLock;

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;
use sha2::{Digest, Sha256};

use cardswitch_identity::state::AppState;

/// How long browsers keep them.
const KEPT: &str = "public, max-age=31536000, immutable";

/// A file, and where it is.
#[derive(Debug)]
pub(super) struct Asset {
    path: String,
    media_type: &'static str,
    content: &'static str,
}

impl Asset {
    fn new(name: &str, extension: &str, media_type: &'static str, content: &'static str) -> Self {
        let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(content));
        let hash = u32::from_be_bytes([a, b, c, d]);
        Self { path: format!("/assets/{name}-{hash:08x}.{extension}"), media_type, content }
    }

    /// The path at which the site serves it.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Whether it is a stylesheet.
    pub(super) fn is_style(&self) -> bool {
        self.media_type.starts_with("text/css")
    }
}

/// How pages look.
pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("site", "css", "text/css; charset=utf-8", include_str!("../assets/site.css"))
});

/// The mark beside the name.
pub(super) static MARK: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("mark", "svg", "image/svg+xml", include_str!("../assets/mark.svg"))
});

/// Copies values; see there.
pub(super) static COPY: LazyLock<Asset> =
    LazyLock::new(|| script("copy", include_str!("../assets/copy.js")));

/// Plots; a file of others, see `assets/vendor`.
pub(super) static PLOT: LazyLock<Asset> =
    LazyLock::new(|| script("uplot", include_str!("../assets/vendor/uplot.js")));

/// How plots look; a file of others.
pub(super) static PLOT_STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("../assets/vendor/uplot.css");
    Asset::new("uplot", "css", "text/css; charset=utf-8", content)
});

/// Follows the overview; see there.
pub(super) static OVERVIEW: LazyLock<Asset> =
    LazyLock::new(|| script("overview", include_str!("../assets/overview.js")));

fn script(name: &str, content: &'static str) -> Asset {
    Asset::new(name, "js", "text/javascript; charset=utf-8", content)
}

/// Serves them.
pub(super) fn asset_routes() -> Router<AppState> {
    [&*STYLE, &*MARK, &*COPY, &*PLOT, &*PLOT_STYLE, &*OVERVIEW].into_iter().fold(
        Router::new(),
        |routes, asset| {
            let serve = async || {
                let headers = [(CONTENT_TYPE, asset.media_type), (CACHE_CONTROL, KEPT)];
                (headers, asset.content).into_response()
            };
            routes.route(asset.path(), get(serve))
        },
    )
}
