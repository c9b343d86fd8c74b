//! Aligned tables and lists of facts.

use super::style::{Colour, Style};

/// The gap between columns.
const COLUMN_GAP: &str = "  ";

/// The last column is not narrowed below this width.
const MIN_COLUMN_WIDTH: usize = 12;

/// One cell of a table.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    colour: Option<Colour>,
    right: bool,
}

impl Cell {
    /// Left-aligned text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), colour: None, right: false }
    }

    /// A right-aligned number. Zeros are dimmed.
    pub(crate) fn number(number: u64) -> Self {
        let colour = (number == 0).then_some(Colour::Dim);
        Self { text: thousands(number), colour, right: true }
    }

    /// Sets the colour.
    pub(crate) fn colour(self, colour: Colour) -> Self {
        Self { colour: Some(colour), ..self }
    }

    /// Sets the colour unless the number is zero.
    pub(crate) fn colour_unless_zero(self, colour: Colour) -> Self {
        if self.text == "0" { self } else { self.colour(colour) }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    fn render(&self, width: usize, style: &Style) -> String {
        let (text, pad) = (cut(&self.text, width), " ".repeat(width.saturating_sub(self.width())));
        let painted = self.colour.map_or_else(|| text.clone(), |colour| style.paint(colour, &text));
        if self.right { pad + &painted } else { painted + &pad }
    }
}

/// Rows below a header.
#[derive(Debug)]
pub(crate) struct TextTable {
    rows: Vec<Vec<Cell>>,
    columns: usize,
}

impl TextTable {
    pub(crate) fn new(header: &[&str]) -> Self {
        let header: Vec<_> = header.iter().map(|name| Cell::text(*name).colour(Colour::Dim)).collect();
        Self { columns: header.len(), rows: vec![header] }
    }

    /// A table without header: names on the left, values on the right.
    pub(crate) fn facts() -> Self {
        Self { rows: Vec::new(), columns: 2 }
    }

    pub(crate) fn fact(&mut self, name: &str, fact: impl Into<Cell>) {
        self.rows.push(vec![Cell::text(name).colour(Colour::Dim), fact.into()]);
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub(crate) fn render(&self, style: &Style) -> String {
        let widths = self.widths(style.width);
        let mut out = String::new();
        for row in &self.rows {
            let header = |column: usize| self.rows.iter().skip(1).any(|row| row[column].right);
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let cell = Cell { right: cell.right || header(column), ..cell.clone() };
                line.push_str(&cell.render(*width, style));
                line.push_str(COLUMN_GAP);
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// The columns' widths. On a terminal the last column shrinks, so that no line wraps.
    fn widths(&self, limit: Option<usize>) -> Vec<usize> {
        let of = |column: usize| self.rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
        let mut widths: Vec<_> = (0..self.columns).map(of).collect();
        if let (Some(limit), Some((last, others))) = (limit, widths.split_last_mut()) {
            let taken = others.iter().sum::<usize>() + others.len() * COLUMN_GAP.len();
            *last = (*last).min(limit.saturating_sub(taken).max(MIN_COLUMN_WIDTH));
        }
        widths
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::text(text)
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_stand_on_the_right() {
        let mut table = TextTable::new(&["QUEUE", "READY", "NOTE"]);
        table.row(vec![Cell::text("mail"), Cell::number(1_234_567), Cell::text("")]);
        table.row(vec![Cell::text("a.longer.one"), Cell::number(0), Cell::text("paused")]);
        let expected = "\
QUEUE             READY  NOTE
mail          1,234,567
a.longer.one          0  paused
";
        assert_eq!(table.render(&Style::PLAIN), expected);
    }

    #[test]
    fn the_last_column_gives_way_on_a_terminal() {
        let mut table = TextTable::new(&["A", "B"]);
        table.row(vec![Cell::text("12345"), Cell::text("é".repeat(100))]);
        let mut style = Style::PLAIN;
        style.width = Some(40);
        assert!(table.render(&style).lines().all(|line| line.chars().count() <= 40));
        assert!(table.render(&style).contains("é…"));
    }
}
