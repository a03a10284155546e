//! `agora auth status`: what each agent would log in with. Names, never values.

use agora_core::login::{Login, Vendor};
use agora_engine::Agora;
use serde_json::{Value, json};

use super::around;
use crate::cli::Context;
use crate::exit::Exit;
use crate::failure::Failure;

struct Standing {
    vendor: &'static Vendor,
    stored: Option<&'static Login>,
    around: Option<&'static Login>,
}

pub(super) async fn tell(context: &Context, agora: &Agora) -> Result<Exit, Failure> {
    let mut all = Vec::new();
    for vendor in Vendor::ALL {
        all.push(Standing { vendor, stored: agora.stored_login(vendor).await?, around: around(vendor) });
    }
    let json = || all.iter().map(Standing::json).collect::<Vec<Value>>();
    context.ui.result(json, || all.iter().map(Standing::text).collect())?;
    for standing in all.iter().filter(|standing| standing.stored.is_none()) {
        let name = standing.vendor.name;
        context.ui.hint(format_args!("`agora auth {name}` stores one for {name}"));
    }
    Ok(Exit::Done)
}

impl Standing {
    fn json(&self) -> Value {
        let variables = |login: Option<&'static Login>| login.map(|login| login.variables);
        json!({
            "vendor": self.vendor.name,
            "stored": self.stored.map(|login| login.name),
            "variables": variables(self.stored),
            "environment": variables(self.around),
        })
    }

    fn text(&self) -> String {
        let quoted = |login: &Login| format!("{} ({})", login.name, login.variables.join(", "));
        let said = match (self.stored, self.around) {
            (Some(stored), Some(_)) => {
                format!("{}, stored; it goes before what this environment has", quoted(stored))
            }
            (Some(stored), None) => format!("{}, stored", quoted(stored)),
            (None, Some(around)) => format!("{}, of this environment, not stored", quoted(around)),
            (None, None) => "nothing".to_owned(),
        };
        format!("{:<7} {said}\n", self.vendor.name)
    }
}
