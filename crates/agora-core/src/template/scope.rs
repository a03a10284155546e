//! The look-up that the template engine uses: JSON values, and a record of every name that was asked for.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use ramhorns::Content;
use ramhorns::encoding::Encoder;
use ramhorns::traits::ContentSequence;
use serde_json::Value;

use super::{DEFINED, RenderError};

type Section<'section, C> = ramhorns::Section<'section, C>;

/// What went wrong during a rendering. The engine has no errors of its own for it.
#[derive(Default)]
pub(super) struct Lookups {
    unknown: RefCell<BTreeSet<String>>,
    depth: Cell<usize>,
    deepest: Cell<usize>,
    /// How many of the scopes that we are in stand on a name that is always defined.
    defined: Cell<usize>,
}

impl Lookups {
    pub(super) fn verdict(self, deepest: usize) -> Result<(), RenderError> {
        if self.deepest.get() > deepest {
            return Err(RenderError::TooDeep);
        }
        let unknown = self.unknown.into_inner();
        if unknown.is_empty() { Ok(()) } else { Err(RenderError::Unknown(unknown)) }
    }
}

/// One value that names are looked up in: the whole data, or what a section stands on.
pub(super) struct Scope<'a> {
    value: &'a Value,
    lookups: &'a Lookups,
    outermost: bool,
}

impl<'a> Scope<'a> {
    pub(super) fn root(value: &'a Value, lookups: &'a Lookups) -> Self {
        Self { value, lookups, outermost: true }
    }

    fn below(&self, value: &'a Value) -> Self {
        Self { value, lookups: self.lookups, outermost: false }
    }

    /// Finds a name here. `None`: ask the scope around this one. `Some(None)`: nobody has it.
    fn find(&self, name: &str) -> Option<Option<&'a Value>> {
        if name == "." {
            return Some(Some(self.value));
        }
        let mut parts = name.split('.');
        let first = self.value.get(parts.next()?);
        match first {
            Some(value) => Some(parts.try_fold(value, |value, part| value.get(part))),
            None if self.outermost => Some(None),
            None => None,
        }
    }

    /// Tells whether a name that nobody has is empty instead of unknown: it is a part of what is always defined, or may be one. What an
    /// agent asks and notes differs from pause to pause, and an answer must not be spent on a prompt that cannot be written.
    fn may_lack(&self, name: &str) -> bool {
        self.lookups.defined.get() > 0 || self.is_defined(name)
    }

    fn is_defined(&self, name: &str) -> bool {
        self.outermost && name.split('.').next().is_some_and(|first| DEFINED.contains(&first))
    }

    fn variable<E: Encoder>(&self, name: &str, encoder: &mut E) -> Result<bool, E::Error> {
        match self.find(name) {
            None => return Ok(false),
            Some(None) if self.may_lack(name) => {}
            Some(None) => drop(self.lookups.unknown.borrow_mut().insert(name.to_owned())),
            Some(Some(Value::Null)) => {}
            Some(Some(Value::String(text))) => encoder.write_unescaped(text)?,
            Some(Some(other)) => encoder.write_unescaped(&other.to_string())?,
        }
        Ok(true)
    }

    fn enter<C: ContentSequence, E: Encoder>(
        &self,
        name: &str,
        value: &'a Value,
        section: Section<'_, C>,
        encoder: &mut E,
    ) -> Result<(), E::Error> {
        let (depth, defined) = (self.lookups.depth.get() + 1, self.lookups.defined.get());
        self.lookups.depth.set(depth);
        self.lookups.deepest.set(self.lookups.deepest.get().max(depth));
        self.lookups.defined.set(defined + usize::from(self.is_defined(name)));
        let result = section.with(&self.below(value)).render(encoder);
        self.lookups.defined.set(defined);
        self.lookups.depth.set(depth - 1);
        result
    }
}

/// Tells what a section runs on: `false`, nothing, and empty texts, lists or objects are not rendered.
pub(super) fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

impl Content for Scope<'_> {
    fn render_field_escaped<E: Encoder>(
        &self,
        _: u64,
        name: &str,
        encoder: &mut E,
    ) -> Result<bool, E::Error> {
        self.variable(name, encoder)
    }

    fn render_field_unescaped<E: Encoder>(
        &self,
        _: u64,
        name: &str,
        encoder: &mut E,
    ) -> Result<bool, E::Error> {
        self.variable(name, encoder)
    }

    fn render_field_section<C: ContentSequence, E: Encoder>(
        &self,
        _: u64,
        name: &str,
        section: Section<'_, C>,
        encoder: &mut E,
    ) -> Result<bool, E::Error> {
        match self.find(name) {
            None => return Ok(false),
            Some(Some(Value::Array(items))) => {
                for item in items {
                    self.enter(name, item, section, encoder)?;
                }
            }
            // A bare yes opens no scope: what is inside means the same as outside.
            Some(Some(Value::Bool(true))) => section.render(encoder)?,
            Some(Some(value)) if is_truthy(value) => self.enter(name, value, section, encoder)?,
            Some(Some(_) | None) => {}
        }
        Ok(true)
    }

    fn render_field_inverse<C: ContentSequence, E: Encoder>(
        &self,
        _: u64,
        name: &str,
        section: Section<'_, C>,
        encoder: &mut E,
    ) -> Result<bool, E::Error> {
        match self.find(name) {
            None => return Ok(false),
            Some(Some(value)) if is_truthy(value) => {}
            Some(Some(_) | None) => section.render(encoder)?,
        }
        Ok(true)
    }
}

/// Says yes to every name and goes into every section, to learn what a template asks for.
#[derive(Default)]
pub(super) struct Probe {
    inside: Cell<usize>,
    plain: RefCell<Vec<String>>,
    sections: RefCell<Vec<String>>,
    within: RefCell<Vec<String>>,
}

impl Probe {
    /// Returns the variables that stand outside every section.
    pub(super) fn plain(&self) -> Vec<String> {
        self.plain.borrow().clone()
    }

    /// Returns the names of the outermost sections.
    pub(super) fn sections(&self) -> Vec<String> {
        self.sections.borrow().clone()
    }

    /// Returns every name, wherever it stands.
    pub(super) fn all(&self) -> impl Iterator<Item = String> {
        [self.plain(), self.sections(), self.within.borrow().clone()].into_iter().flatten()
    }

    fn note(&self, outermost: &RefCell<Vec<String>>, name: &str) {
        let list = if self.inside.get() == 0 { outermost } else { &self.within };
        list.borrow_mut().push(name.to_owned());
    }

    fn go_in<C: ContentSequence, E: Encoder>(
        &self,
        name: &str,
        section: Section<'_, C>,
        encoder: &mut E,
    ) -> Result<bool, E::Error> {
        self.note(&self.sections, name);
        self.inside.set(self.inside.get() + 1);
        let result = section.render(encoder);
        self.inside.set(self.inside.get() - 1);
        result.map(|()| true)
    }
}

impl Content for Probe {
    fn render_field_escaped<E: Encoder>(&self, _: u64, name: &str, _: &mut E) -> Result<bool, E::Error> {
        self.note(&self.plain, name);
        Ok(true)
    }

    fn render_field_unescaped<E: Encoder>(&self, _: u64, name: &str, _: &mut E) -> Result<bool, E::Error> {
        self.note(&self.plain, name);
        Ok(true)
    }

    fn render_field_section<C: ContentSequence, E: Encoder>(
        &self,
        _: u64,
        name: &str,
        section: Section<'_, C>,
        encoder: &mut E,
    ) -> Result<bool, E::Error> {
        self.go_in(name, section, encoder)
    }

    fn render_field_inverse<C: ContentSequence, E: Encoder>(
        &self,
        _: u64,
        name: &str,
        section: Section<'_, C>,
        encoder: &mut E,
    ) -> Result<bool, E::Error> {
        self.go_in(name, section, encoder)
    }
}
