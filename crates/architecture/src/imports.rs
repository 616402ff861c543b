//! The imports of one module: `use` declarations and paths in code, types and macros.

use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Expr, ImplItem, Item, Path, Stmt, Token, TraitItem, Type};

use crate::modules::{ModuleId, Modules, Use, is_left_out, item_attributes, item_name, uses};
use crate::names::{Resolver, Scope, Target};

/// One place where a file names an item of another file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The file that imports.
    pub from: String,
    /// From 1.
    pub line: usize,
    /// The item's name where it is defined; `*` for a glob.
    pub item: String,
    /// The file that defines it.
    pub to: String,
}

/// One inherent `impl` of a type of the same crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impl {
    /// The file it is in.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// The type's name.
    pub name: String,
    /// The file that defines the type.
    pub defined_in: String,
}

/// Reads what one module imports from other files, and its inherent `impl`s.
pub fn read_imports(modules: &Modules, module: ModuleId, imports: &mut Vec<Import>, impls: &mut Vec<Impl>) {
    let resolver = Resolver::new(modules, module);
    let mut reader = Reader { modules, module, resolver, imports, impls };
    for item in &modules.all[module].items {
        reader.visit_item(item);
    }
}

struct Reader<'m> {
    modules: &'m Modules,
    module: ModuleId,
    resolver: Resolver<'m>,
    imports: &'m mut Vec<Import>,
    impls: &'m mut Vec<Impl>,
}

impl Reader<'_> {
    /// Notes what a path leads to, if that is an item of another file.
    fn note(&mut self, path: &[String], line: usize) {
        for target in self.resolver.resolve(path) {
            if let Target::Item { module, name } = target {
                self.note_item(module, name, line);
            }
        }
    }

    fn note_item(&mut self, module: ModuleId, item: String, line: usize) {
        let (from, to) = (&self.modules.all[self.module].file, &self.modules.all[module].file);
        if from != to {
            self.imports.push(Import { from: from.clone(), line, item, to: to.clone() });
        }
    }

    /// Notes what one path of a `use` declaration leads to.
    fn note_use(&mut self, import: &Use) {
        for target in self.resolver.resolve(&import.path) {
            match target {
                Target::Item { module, name } if !self.publishes_own(import, module) => {
                    self.note_item(module, name, import.line);
                }
                Target::Module(module) if import.name.is_none() && !self.publishes_own(import, module) => {
                    self.note_item(module, "*".to_owned(), import.line);
                }
                _ => {}
            }
        }
    }

    /// Whether a re-export publishes what is defined inside of the module itself.
    fn publishes_own(&self, import: &Use, module: ModuleId) -> bool {
        import.public && self.modules.is_within(module, self.module)
    }

    /// The names that the `use` declarations and items of a block add.
    fn scope_of(&mut self, block: &Block) -> Scope {
        let mut scope = Scope::default();
        for statement in &block.stmts {
            let Stmt::Item(item) = statement else { continue };
            if is_left_out(item_attributes(item)) {
                continue;
            }
            if let Item::Use(declaration) = item {
                for import in uses(declaration) {
                    scope.add(self.module, import.name, self.resolver.resolve(&import.path));
                }
            } else if let Some(name) = item_name(item) {
                let own = Target::Item { module: self.module, name: name.clone() };
                scope.add(self.module, Some(name), vec![own]);
            }
        }
        scope
    }

    /// Reads what is between a macro's brackets: as expressions, as items, as statements, or else path by
    /// path.
    fn read_macro(&mut self, tokens: &TokenStream) {
        let expressions = Punctuated::<Expr, Token![,]>::parse_terminated;
        if let Ok(expressions) = expressions.parse2(tokens.clone()) {
            expressions.iter().for_each(|expression| self.visit_expr(expression));
        } else if let Ok(file) = syn::parse2::<syn::File>(tokens.clone()) {
            file.items.iter().for_each(|item| self.visit_item(item));
        } else if let Ok(statements) = Block::parse_within.parse2(tokens.clone()) {
            statements.iter().for_each(|statement| self.visit_stmt(statement));
        } else {
            self.read_tokens(tokens.clone());
        }
    }

    /// Notes every path of two segments or more among the tokens; a single name there may be anything.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut next = 0;
        while let Some(token) = tokens.get(next) {
            let path = path_at(&tokens[next..]);
            // `$name` is a parameter of a macro, `$crate` the crate.
            let parameter = next > 0
                && is_mark(&tokens[next - 1], '$')
                && path.first().is_some_and(|first| first != "crate");
            if path.len() > 1 && !parameter {
                self.note(&path, token.span().start().line);
            }
            if let TokenTree::Group(group) = token {
                self.read_tokens(group.stream());
            }
            next += (3 * path.len()).saturating_sub(2).max(1);
        }
    }
}

/// The path that begins with the first token; empty if none does. A segment and the next are four tokens:
/// name, `:`, `:`, name.
fn path_at(tokens: &[TokenTree]) -> Vec<String> {
    let mut path = Vec::new();
    let mut rest = tokens;
    while let [TokenTree::Ident(name), after @ ..] = rest {
        path.push(name.unraw().to_string());
        match after {
            [first, second, after @ ..] if is_mark(first, ':') && is_mark(second, ':') => rest = after,
            _ => break,
        }
    }
    path
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == mark)
}

fn segments(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect()
}

fn line(path: &Path) -> usize {
    path.segments.first().map_or(0, |segment| segment.ident.span().start().line)
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_path(&mut self, path: &'a Path) {
        // `::name` is another crate.
        if path.leading_colon.is_none() {
            self.note(&segments(path), line(path));
        }
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, declaration: &'a syn::ItemUse) {
        if declaration.leading_colon.is_none() {
            for import in uses(declaration) {
                self.note_use(&import);
            }
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if let (None, Type::Path(path)) = (&item.trait_, &*item.self_ty) {
            for target in self.resolver.resolve(&segments(&path.path)) {
                if let Target::Item { module, name } = target {
                    let file = self.modules.all[self.module].file.clone();
                    let defined_in = self.modules.all[module].file.clone();
                    self.impls.push(Impl { file, line: line(&path.path), name, defined_in });
                }
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_block(&mut self, block: &'a Block) {
        let scope = self.scope_of(block);
        self.resolver.scopes.push(scope);
        visit::visit_block(self, block);
        self.resolver.scopes.pop();
    }

    fn visit_macro(&mut self, invocation: &'a syn::Macro) {
        self.visit_path(&invocation.path);
        self.read_macro(&invocation.tokens);
    }

    fn visit_item_macro(&mut self, item: &'a syn::ItemMacro) {
        // The rules of a macro's definition cannot be parsed as Rust.
        if item.ident.is_some() {
            self.read_tokens(item.mac.tokens.clone());
        } else {
            self.visit_macro(&item.mac);
        }
    }

    // Attributes name no items of the crate, and doc comments are attributes.
    fn visit_attribute(&mut self, _: &'a Attribute) {}

    fn visit_vis_restricted(&mut self, _: &'a syn::VisRestricted) {}

    fn visit_item(&mut self, item: &'a Item) {
        if !is_left_out(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_left_out(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'a TraitItem) {
        let attributes: &[Attribute] = match item {
            TraitItem::Const(item) => &item.attrs,
            TraitItem::Fn(item) => &item.attrs,
            TraitItem::Type(item) => &item.attrs,
            TraitItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_left_out(attributes) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'a syn::Field) {
        if !is_left_out(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'a syn::FieldValue) {
        if !is_left_out(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'a syn::Variant) {
        if !is_left_out(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if !is_left_out(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        if !is_left_out(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_expr_block(&mut self, block: &'a syn::ExprBlock) {
        if !is_left_out(&block.attrs) {
            visit::visit_expr_block(self, block);
        }
    }
}
