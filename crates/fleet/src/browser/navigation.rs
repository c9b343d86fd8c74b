//! URLs that a page must not navigate to by itself.

/// Schemes of the browser's own machine. Chromium blocks such a navigation without a network event.
const LOCAL_SCHEMES: [&str; 6] =
    ["file:", "filesystem:", "chrome:", "chrome-untrusted:", "devtools:", "view-source:"];

/// Whether a URL is of the browser's own machine.
pub(super) fn has_local_scheme(url: &str) -> bool {
    let url = url.trim_start().as_bytes();
    LOCAL_SCHEMES.iter().any(|scheme| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    })
}

/// The start of a URL, for an error.
pub(super) fn truncate(url: &str) -> String {
    url.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_into_the_machine_is_told_from_the_web() {
        for url in ["file:///etc/passwd", " FILE:/x", "chrome://version", "view-source:http://a"] {
            assert!(has_local_scheme(url), "{url}");
        }
        for url in
            ["http://file:80/", "https://a", "about:blank", "blob:http://a/1", "mailto:a@b", "fil", "é"]
        {
            assert!(!has_local_scheme(url), "{url}");
        }
    }
}
