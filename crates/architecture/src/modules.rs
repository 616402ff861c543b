//! The modules of one crate, as its `mod` declarations make them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Attribute, Item, Meta, Token, UseTree, Visibility};

/// Options of `cfg` that are not set in an ordinary build. Items that need one of them are left out.
const UNSET: [&str; 3] = ["test", "doctest", "bufpool_loom"];

/// The sources of one crate: path below `src`, with `/`, and text.
pub type Sources = BTreeMap<String, String>;

/// Reads `src` of a crate.
///
/// # Errors
///
/// The file that could not be read, and why.
pub fn read_sources(src: &Path) -> Result<Sources, String> {
    let mut sources = Sources::new();
    let mut folders = vec![src.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let failed = |error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text =
                    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                let below = path.strip_prefix(src).expect("the walk began there");
                let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
                sources.insert(parts.join("/"), text);
            }
        }
    }
    Ok(sources)
}

/// Number of a module in [`Modules`].
pub type ModuleId = usize;

/// All modules of a crate, without those that only tests compile.
pub struct Modules {
    /// What paths in `main.rs` call the library.
    pub library: String,
    /// Root of `lib.rs`, if there is one.
    pub lib: Option<ModuleId>,
    /// Parents come before their children.
    pub all: Vec<Module>,
}

/// One module: a file, or an inline module of a file.
pub struct Module {
    /// Path below `src`.
    pub file: String,
    /// None for a crate root.
    pub parent: Option<ModuleId>,
    /// What a path may name in it.
    pub names: HashMap<String, Vec<Binding>>,
    /// Its glob imports.
    pub globs: Vec<Use>,
    /// Its items but `mod` declarations.
    pub items: Vec<Item>,
}

/// What a name in a module stands for.
pub enum Binding {
    /// A child module.
    Module(ModuleId),
    /// An item, and the module that defines it. That is the module of the name, except for an exported macro,
    /// which is a name of the crate root, too.
    Item(ModuleId),
    /// An import.
    Use(Use),
}

/// One path of a `use` declaration.
#[derive(Clone)]
pub struct Use {
    /// Segments, without the `*` of a glob.
    pub path: Vec<String>,
    /// The name it binds; None for a glob.
    pub name: Option<String>,
    /// Whether it is a re-export: visible beyond the module and its children.
    pub public: bool,
    /// Where it is, from 1.
    pub line: usize,
}

impl Modules {
    /// The modules that `lib.rs` and `main.rs` declare; `library` is what `main.rs` calls the library.
    ///
    /// # Errors
    ///
    /// A file that does not parse, a module without a file, or a crate without a root.
    pub fn new(sources: &Sources, library: &str) -> Result<Self, String> {
        let mut modules = Self { library: library.to_owned(), lib: None, all: Vec::new() };
        for root in ["lib.rs", "main.rs"] {
            if sources.contains_key(root) {
                let id = modules.add_file(sources, root, None, "")?;
                if root == "lib.rs" {
                    modules.lib = Some(id);
                }
            }
        }
        if modules.all.is_empty() {
            return Err("expected lib.rs or main.rs, found neither".to_owned());
        }
        Ok(modules)
    }

    /// Whether `id` is `ancestor` or inside of it.
    pub fn is_within(&self, id: ModuleId, ancestor: ModuleId) -> bool {
        let mut next = Some(id);
        while let Some(id) = next {
            if id == ancestor {
                return true;
            }
            next = self.all[id].parent;
        }
        false
    }

    /// The crate root above a module.
    pub fn root(&self, mut id: ModuleId) -> ModuleId {
        while let Some(parent) = self.all[id].parent {
            id = parent;
        }
        id
    }

    /// Adds a file's module; `folder` is where the files of its children are, empty or with a `/` at its end.
    fn add_file(
        &mut self,
        sources: &Sources,
        file: &str,
        parent: Option<ModuleId>,
        folder: &str,
    ) -> Result<ModuleId, String> {
        let parsed = syn::parse_file(&sources[file])
            .map_err(|error| format!("{file}:{}: {error}", error.span().start().line))?;
        self.add(sources, file, parent, folder, parsed.items)
    }

    fn add(
        &mut self,
        sources: &Sources,
        file: &str,
        parent: Option<ModuleId>,
        folder: &str,
        items: Vec<Item>,
    ) -> Result<ModuleId, String> {
        let id = self.all.len();
        self.all.push(Module {
            file: file.to_owned(),
            parent,
            names: HashMap::new(),
            globs: Vec::new(),
            items: Vec::new(),
        });
        for item in items {
            if is_left_out(item_attributes(&item)) {
                continue;
            }
            match item {
                Item::Mod(module) => self.add_child(sources, id, folder, module)?,
                item => self.add_item(id, item),
            }
        }
        Ok(id)
    }

    fn add_child(
        &mut self,
        sources: &Sources,
        id: ModuleId,
        folder: &str,
        module: syn::ItemMod,
    ) -> Result<(), String> {
        let name = module.ident.unraw().to_string();
        let file = self.all[id].file.clone();
        let below = format!("{folder}{name}/");
        let child = if let Some((_, items)) = module.content {
            self.add(sources, &file, Some(id), &below, items)?
        } else {
            let places = [format!("{folder}{name}.rs"), format!("{below}mod.rs")];
            let found = places.iter().find(|place| sources.contains_key(*place)).ok_or_else(|| {
                format!(
                    "{file}:{}: expected the module `{name}` in {} or {}",
                    module.ident.span().start().line,
                    places[0],
                    places[1]
                )
            })?;
            self.add_file(sources, found, Some(id), &below)?
        };
        self.bind(id, name, Binding::Module(child));
        Ok(())
    }

    fn add_item(&mut self, id: ModuleId, item: Item) {
        match &item {
            Item::Use(declaration) => {
                for import in uses(declaration) {
                    match import.name.clone() {
                        Some(name) => self.bind(id, name, Binding::Use(import)),
                        None => self.all[id].globs.push(import),
                    }
                }
            }
            Item::Macro(definition) => {
                if let Some(name) = &definition.ident {
                    self.bind(id, name.to_string(), Binding::Item(id));
                    let exported = |attribute: &Attribute| attribute.path().is_ident("macro_export");
                    if self.all[id].parent.is_some() && definition.attrs.iter().any(exported) {
                        self.bind(self.root(id), name.to_string(), Binding::Item(id));
                    }
                }
            }
            item => {
                if let Some(name) = item_name(item) {
                    self.bind(id, name, Binding::Item(id));
                }
            }
        }
        self.all[id].items.push(item);
    }

    fn bind(&mut self, id: ModuleId, name: String, binding: Binding) {
        self.all[id].names.entry(name).or_default().push(binding);
    }
}

/// The paths of a `use` declaration, one for each name it binds or glob.
pub fn uses(declaration: &syn::ItemUse) -> Vec<Use> {
    let public = match &declaration.vis {
        Visibility::Inherited => false,
        Visibility::Restricted(within) => !within.path.is_ident("self"),
        Visibility::Public(_) => true,
    };
    let mut found = Vec::new();
    flatten(&declaration.tree, &mut Vec::new(), public, &mut found);
    found
}

fn flatten(tree: &UseTree, before: &mut Vec<String>, public: bool, found: &mut Vec<Use>) {
    let mut push = |path: Vec<String>, name: Option<String>, span: proc_macro2::Span| {
        found.push(Use { path, name, public, line: span.start().line });
    };
    let followed_by = |last: &syn::Ident| match last.unraw().to_string() {
        // `a::{self}` is `a`; `self` alone is the module.
        last if last == "self" && !before.is_empty() => before.clone(),
        last => before.iter().cloned().chain([last]).collect(),
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.unraw().to_string());
            flatten(&path.tree, before, public, found);
            before.pop();
        }
        UseTree::Name(name) => {
            let path = followed_by(&name.ident);
            let bound = path.last().cloned();
            push(path, bound, name.ident.span());
        }
        UseTree::Rename(rename) => {
            let bound = rename.rename.unraw().to_string();
            push(followed_by(&rename.ident), Some(bound), rename.ident.span());
        }
        UseTree::Glob(glob) => push(before.clone(), None, glob.star_token.span),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before, public, found);
            }
        }
    }
}

/// The name an item binds in its module, if it binds one.
pub fn item_name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.unraw().to_string())
}

/// The attributes of an item.
pub fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether a `cfg` among the attributes cannot hold in an ordinary build.
pub fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .filter_map(|attribute| attribute.parse_args::<Meta>().ok())
        .any(|condition| holds(&condition) == Some(false))
}

/// Whether a `cfg` condition holds in an ordinary build; None where that depends on more than [`UNSET`].
fn holds(condition: &Meta) -> Option<bool> {
    let Meta::List(list) = condition else {
        return UNSET.iter().any(|unset| condition.path().is_ident(unset)).then_some(false);
    };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let parts: Vec<_> = parts.iter().map(holds).collect();
    // `all` is decided by a part that does not hold, `any` by one that does.
    let decisive = if list.path.is_ident("not") {
        return parts.first().copied().flatten().map(|holds| !holds);
    } else {
        list.path.is_ident("any")
    };
    if parts.contains(&Some(decisive)) {
        Some(decisive)
    } else if parts.contains(&None) {
        None
    } else {
        Some(!decisive)
    }
}
