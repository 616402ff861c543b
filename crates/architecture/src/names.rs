//! What a path names.

use std::collections::HashMap;
use std::ptr;

use crate::modules::{Binding, ModuleId, Modules, Use};

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A module of the crate.
    Module(ModuleId),
    /// An item.
    Item {
        /// Where it is defined; one of another crate counts as defined where this crate imports it.
        module: ModuleId,
        /// Its name there.
        name: String,
    },
}

/// The names that one block of code adds to those of its module.
#[derive(Default)]
pub struct Scope {
    /// What each name leads to.
    pub names: HashMap<String, Vec<Target>>,
    /// Modules whose names a glob brings in.
    pub globs: Vec<ModuleId>,
}

impl Scope {
    /// A declaration in a block of `module` binds `name`, or is a glob.
    pub fn add(&mut self, module: ModuleId, name: Option<String>, targets: Vec<Target>) {
        match name {
            None => self.globs.extend(targets.iter().filter_map(Target::module)),
            Some(name) if targets.is_empty() => {
                let outside = Target::Item { module, name: name.clone() };
                self.names.entry(name).or_default().push(outside);
            }
            Some(name) => self.names.entry(name).or_default().extend(targets),
        }
    }
}

impl Target {
    fn module(&self) -> Option<ModuleId> {
        match self {
            Self::Module(module) => Some(*module),
            Self::Item { .. } => None,
        }
    }
}

/// Resolves paths in one module, and in the blocks of its functions.
pub struct Resolver<'m> {
    modules: &'m Modules,
    module: ModuleId,
    /// Innermost last.
    pub scopes: Vec<Scope>,
}

/// Imports that are being followed, so that one which names itself ends.
type Followed = Vec<*const Use>;

impl<'m> Resolver<'m> {
    /// For paths in `module`.
    pub fn new(modules: &'m Modules, module: ModuleId) -> Self {
        Self { modules, module, scopes: Vec::new() }
    }

    /// What a path leads to: nothing where it names a local variable or the prelude, several things where a
    /// name stands for a module and a function.
    pub fn resolve(&self, path: &[String]) -> Vec<Target> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        for scope in self.scopes.iter().rev() {
            let found = match scope.names.get(first) {
                Some(found) => found.clone(),
                None => scope.globs.iter().flat_map(|&glob| self.offered(glob, first)).collect(),
            };
            if !found.is_empty() {
                return self.walk(self.module, found, rest, &mut Followed::new());
            }
        }
        self.resolve_in(self.module, path, &mut Followed::new())
    }

    fn offered(&self, glob: ModuleId, name: &str) -> Vec<Target> {
        self.look_up(glob, name, self.module, &mut Followed::new())
    }

    /// What a path in a module leads to, outside of all functions.
    fn resolve_in(&self, module: ModuleId, path: &[String], followed: &mut Followed) -> Vec<Target> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        let start = match first.as_str() {
            "crate" => vec![Target::Module(self.modules.root(module))],
            "self" | "super" => return self.resolve_relative(module, path, followed),
            name => match self.look_up(module, name, module, followed) {
                found if !found.is_empty() => found,
                _ if name == self.modules.library => {
                    self.modules.lib.map(Target::Module).into_iter().collect()
                }
                _ => return Vec::new(),
            },
        };
        self.walk(module, start, rest, followed)
    }

    /// A path that begins with `self` or `super`, of which there may be several.
    fn resolve_relative(&self, module: ModuleId, path: &[String], followed: &mut Followed) -> Vec<Target> {
        let mut start = module;
        let mut rest = path;
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "self" => {}
                "super" => start = self.modules.all[start].parent.unwrap_or(start),
                _ => break,
            }
            rest = after;
        }
        self.walk(module, vec![Target::Module(start)], rest, followed)
    }

    /// Follows the rest of a path, on behalf of the module `from`.
    fn walk(
        &self,
        from: ModuleId,
        start: Vec<Target>,
        rest: &[String],
        followed: &mut Followed,
    ) -> Vec<Target> {
        let mut targets = start;
        for name in rest {
            // A variant or an associated item is defined where its type is.
            let Some(module) = targets.iter().find_map(Target::module) else { return targets };
            targets = self.look_up(module, name, from, followed);
            if targets.is_empty() {
                // Only a macro can have defined it.
                targets.push(Target::Item { module, name: name.clone() });
            }
        }
        targets
    }

    /// What a name in a module leads to, as far as the module `from` sees it.
    fn look_up(&self, module: ModuleId, name: &str, from: ModuleId, followed: &mut Followed) -> Vec<Target> {
        let mut found = Vec::new();
        let names = &self.modules.all[module].names;
        for binding in names.get(name).into_iter().flatten() {
            match binding {
                Binding::Module(child) => found.push(Target::Module(*child)),
                Binding::Item(module) => found.push(Target::Item { module: *module, name: name.to_owned() }),
                Binding::Use(import) => {
                    if self.sees(module, import, from) && !followed.contains(&ptr::from_ref(import)) {
                        followed.push(import);
                        let targets = self.resolve_in(module, &import.path, followed);
                        followed.pop();
                        if targets.is_empty() {
                            found.push(Target::Item { module, name: name.to_owned() });
                        }
                        found.extend(targets);
                    }
                }
            }
        }
        if found.is_empty() { self.look_up_in_globs(module, name, from, followed) } else { found }
    }

    fn look_up_in_globs(
        &self,
        module: ModuleId,
        name: &str,
        from: ModuleId,
        followed: &mut Followed,
    ) -> Vec<Target> {
        let mut found = Vec::new();
        for glob in &self.modules.all[module].globs {
            if !self.sees(module, glob, from) || followed.contains(&ptr::from_ref(glob)) {
                continue;
            }
            followed.push(glob);
            for offering in self.resolve_in(module, &glob.path, followed).iter().filter_map(Target::module) {
                found.extend(self.look_up(offering, name, module, followed));
            }
            followed.pop();
        }
        found
    }

    /// Whether an import of `module` can be named in `from`.
    fn sees(&self, module: ModuleId, import: &Use, from: ModuleId) -> bool {
        import.public || self.modules.is_within(from, module)
    }
}
