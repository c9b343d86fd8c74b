//! What is shown, without what differs from one time to the next: times, bars and generated ids.

/// The same text with `TIME` for a moment, `SPAN` for a duration, and no bars.
pub(crate) fn steady(text: &str) -> String {
    text.lines().map(steady_line).collect::<Vec<_>>().join("\n")
}

fn steady_line(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let bare = word.trim_matches(['(', ')', ',', ':']);
        let is_bar = !bare.is_empty() && bare.chars().all(|c| "=>*".contains(c));
        let unit = ["ms", "s", "min", "h", "d"].contains(&bare);
        let after_number = words.last().is_some_and(|last| last.parse::<f64>().is_ok());
        if is_bar {
            continue;
        }
        if unit && after_number {
            words.pop();
            words.push(word.replace(bare, "SPAN"));
        } else if is_moment(bare) {
            words.push(word.replace(bare, "TIME"));
        } else if is_brief(bare) {
            words.push(word.replace(bare, "SPAN"));
        } else {
            words.push(word.to_owned());
        }
    }
    let indent = line.len() - line.trim_start().len();
    format!("{}{}", if indent > 0 { "  " } else { "" }, words.join(" "))
}

/// `2026-01-01T00:00:00.000Z`.
fn is_moment(word: &str) -> bool {
    word.len() >= 20 && word.as_bytes()[10] == b'T' && word.ends_with('Z')
}

/// `3s`, `120ms`.
fn is_brief(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < word.len() && ["ms", "s", "m", "h", "d"].contains(&unit)
}
