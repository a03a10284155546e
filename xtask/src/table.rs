//! Markdown tables, aligned so that they read well in a terminal too.

/// Rows of text under a header.
#[derive(Debug)]
pub(crate) struct Table<const COLUMNS: usize> {
    header: [&'static str; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) fn new(header: [&'static str; COLUMNS]) -> Self {
        Self { header, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, row: [String; COLUMNS]) {
        // A bar or a line break in a cell would end it.
        self.rows.push(row.map(|cell| cell.replace('|', "\\|").replace('\n', " ")));
    }

    pub(crate) fn render(&self) -> String {
        let header = self.header.map(str::to_owned);
        let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
            self.rows.iter().chain([&header]).map(|row| row[column].chars().count()).max().unwrap_or(0)
        });
        let line = |row: &[String; COLUMNS]| {
            let cells: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            format!("| {} |", cells.join(" | "))
        };
        let rule = format!("|{}|", widths.map(|width| "-".repeat(width + 2)).join("|"));
        let rows = self.rows.iter().map(line);
        [line(&header), rule].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["part", "v"]);
        table.add(["a|b".into(), "1.10".into()]);
        table.add(["é".into(), String::new()]);
        assert_eq!(
            table.render(),
            "| part | v    |\n\
             |------|------|\n\
             | a\\|b | 1.10 |\n\
             | é    |      |"
        );
    }
}
