//! What Claude Code says about a run at its end. Its exit code alone says nothing: interrupted, it ends with 0.

use agora_core::reason::FailureCode;
use agora_core::wire::report::{ModelUsage, Usage};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::Verdict;

/// The `result` line. Everything is optional: its form changes from version to version.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Envelope {
    pub(super) subtype: String,
    /// Left out, it is no success: an error has the subtype `success` too.
    is_error: Option<bool>,
    pub(super) terminal_reason: Option<String>,
    pub(super) result: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) num_turns: u64,
    pub(super) duration_ms: u64,
    pub(super) total_cost_usd: Option<f64>,
    #[serde(rename = "modelUsage")]
    model_usage: Map<String, Value>,
    pub(super) structured_output: Option<Value>,
    deferred_tool_use: Option<Value>,
    pub(super) permission_denials: Vec<Value>,
    api_error_status: Option<u16>,
    errors: Vec<Value>,
}

impl Envelope {
    /// Says how the runtime says that it went.
    pub(super) fn verdict(&self) -> Verdict {
        match self.subtype.as_str() {
            "error_max_turns" => return Verdict::Budget("turns"),
            "error_max_budget_usd" => return Verdict::Budget("usd"),
            _ => {}
        }
        if self.is_error == Some(false) {
            return Verdict::Success;
        }
        let code = match (self.api_error_status, self.terminal_reason.as_deref()) {
            (Some(401 | 403), _) => FailureCode::Auth,
            (Some(429), _) => FailureCode::RateLimited,
            (Some(500..), _) | (None, Some("api_error")) => FailureCode::ProviderUnavailable,
            (Some(_) | None, _) => FailureCode::AgentExit,
        };
        Verdict::failed(code, self.complaint())
    }

    /// Returns the call that waits for its answer. One that was dropped is named as well, with an error.
    pub(super) fn deferred(&self) -> Option<&Value> {
        self.deferred_tool_use.as_ref().filter(|_| self.is_error == Some(false))
    }

    fn complaint(&self) -> String {
        let errors = self.errors.iter().filter_map(Value::as_str);
        let said = self.result.as_deref().into_iter().chain(errors).find(|text| !text.trim().is_empty());
        let why = self.terminal_reason.as_deref().unwrap_or(&self.subtype);
        match said {
            Some(said) => said.trim().to_owned(),
            None => format!("claude reported an error: {why}"),
        }
    }

    /// What the whole session has used so far: on `--resume` it counts on.
    pub(super) fn total(&self) -> Usage {
        let number = |fields: &Value, key: &str| fields.get(key).and_then(Value::as_u64).unwrap_or(0);
        let model = |(name, fields): (&String, &Value)| ModelUsage {
            model: name.clone(),
            input_tokens: number(fields, "inputTokens"),
            output_tokens: number(fields, "outputTokens"),
            cache_read_tokens: number(fields, "cacheReadInputTokens"),
            cache_write_tokens: number(fields, "cacheCreationInputTokens"),
            cost_usd: fields.get("costUSD").and_then(Value::as_f64),
        };
        Usage {
            models: self.model_usage.iter().map(model).collect(),
            cost_usd: self.total_cost_usd,
            turns: self.num_turns,
            duration_ms: self.duration_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn envelope(value: Value) -> Envelope {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_went_wrong_is_told_apart() {
        let code = |value: Value| match envelope(value).verdict() {
            Verdict::Failed { code, .. } => code.to_string(),
            other => format!("{other:?}"),
        };
        let api = |status: u16| json!({"subtype": "success", "is_error": true, "terminal_reason": "api_error", "api_error_status": status});
        assert_eq!(code(api(401)), "auth");
        assert_eq!(code(api(403)), "auth");
        assert_eq!(code(api(429)), "rate-limited");
        assert_eq!(code(api(500)), "provider-unavailable");
        assert_eq!(code(api(529)), "provider-unavailable");
        assert_eq!(code(api(400)), "agent-exit");
        assert_eq!(code(json!({"is_error": true, "terminal_reason": "api_error"})), "provider-unavailable");
        assert_eq!(code(json!({"is_error": true, "subtype": "error_during_execution"})), "agent-exit");
        assert_eq!(code(json!({"is_error": true, "subtype": "error_max_turns"})), "Budget(\"turns\")");
        assert_eq!(code(json!({"subtype": "success", "is_error": false})), "Success");
        assert_eq!(code(json!({"subtype": "success"})), "agent-exit", "nobody said that it went well");
    }

    #[test]
    fn tokens_and_cost_are_read_by_model() {
        let total = envelope(json!({"total_cost_usd": 0.0016, "num_turns": 2, "modelUsage": {"claude-opus-5-5":
            {"inputTokens": 200, "outputTokens": 40, "cacheReadInputTokens": 3, "cacheCreationInputTokens": 4, "costUSD": 0.0016}}}))
        .total();
        assert_eq!((total.tokens(), total.cost_usd, total.turns), (247, Some(0.0016), 2));
    }
}
