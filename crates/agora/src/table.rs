//! Columns for people.

/// Rows under headings, each column as wide as it must be.
#[derive(Debug)]
pub(crate) struct Table<const N: usize>(Vec<[String; N]>);

impl<const N: usize> Table<N> {
    pub(crate) fn new(headings: [&str; N]) -> Self {
        Self(vec![headings.map(str::to_owned)])
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.0.push(cells);
    }

    /// Writes the table. A column that is empty in every row is left out.
    pub(crate) fn text(&self) -> String {
        let width = |column: usize| self.0.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let used: Vec<usize> =
            (0..N).filter(|column| self.0[1..].iter().any(|row| !row[*column].is_empty())).collect();
        let line = |row: &[String; N]| {
            let cells = used.iter().map(|column| format!("{:<1$}", row[*column], width(*column)));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        self.0.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_line_up_and_empty_ones_are_left_out() {
        let mut table = Table::new(["A", "EMPTY", "C"]);
        table.row(["one".into(), String::new(), "x".into()]);
        table.row(["ä".into(), String::new(), "y".into()]);
        assert_eq!(table.text(), "A    C\none  x\nä    y\n");
    }
}
