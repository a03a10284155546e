//! `[mcp]` in `agora.toml`: how much agents that drive agora may start, and on what.

use std::path::PathBuf;

use serde::Deserialize;

/// What agents that drive agora may do.
#[derive(Clone, Debug, PartialEq)]
pub struct McpSettings {
    /// Directories that agents may be given to work on, beside the one that the server was started in.
    pub workspaces: Vec<PathBuf>,
    /// Dispatches of one client that are under way at once.
    pub max_live: u32,
    /// Dispatches that one client starts, all together.
    pub max_dispatches: u32,
    /// How many agents may stand between a person and one that dispatches.
    pub max_depth: u32,
    /// What each thread may cost, where its subagent has no lower limit. `None`: no limit.
    pub max_usd: Option<f64>,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self { workspaces: Vec::new(), max_live: 20, max_dispatches: 500, max_depth: 1, max_usd: Some(10.0) }
    }
}

/// What the file may say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WrittenMcp {
    workspaces: Option<Vec<PathBuf>>,
    max_live: Option<u32>,
    max_dispatches: Option<u32>,
    max_depth: Option<u32>,
    max_usd: Option<f64>,
}

impl WrittenMcp {
    pub(super) fn lay(self, settings: &mut McpSettings) -> Result<(), String> {
        if let Some(path) = self.workspaces.iter().flatten().find(|path| !path.is_absolute()) {
            return Err(format!("`mcp.workspaces` has `{}`, which is not an absolute path", path.display()));
        }
        if let Some(usd) = self.max_usd.filter(|usd| !usd.is_finite() || *usd <= 0.0) {
            return Err(format!("`mcp.max_usd` is {usd}, not an amount of money"));
        }
        settings.workspaces = self.workspaces.unwrap_or_else(|| settings.workspaces.clone());
        settings.max_live = self.max_live.unwrap_or(settings.max_live);
        settings.max_dispatches = self.max_dispatches.unwrap_or(settings.max_dispatches);
        settings.max_depth = self.max_depth.unwrap_or(settings.max_depth);
        settings.max_usd = self.max_usd.or(settings.max_usd);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid(text: &str) -> Result<McpSettings, String> {
        let mut settings = McpSettings::default();
        toml::from_str::<WrittenMcp>(text).map_err(|error| error.to_string())?.lay(&mut settings)?;
        Ok(settings)
    }

    #[test]
    fn what_is_said_counts_and_the_rest_is_as_it_was() {
        let settings = laid("workspaces = [\"/src\"]\nmax_live = 3\nmax_usd = 2.5\n").unwrap();
        let expected = McpSettings {
            workspaces: vec!["/src".into()],
            max_live: 3,
            max_usd: Some(2.5),
            ..McpSettings::default()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in
            ["workspaces = [\"src\"]", "max_usd = 0", "max_usd = -1.0", "max_alive = 1", "max_live = -1"]
        {
            assert!(laid(wrong).is_err(), "{wrong}");
        }
    }
}
