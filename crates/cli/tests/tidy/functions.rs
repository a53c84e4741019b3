//! The rule for functions: each fits a screen.

use super::Source;
use syn::visit::{self, Visit};

const FUNCTION_LINES: usize = 100;

struct Functions<'a> {
    source: &'a Source,
    /// File, name and lines of each long function.
    found: Vec<(String, String, usize)>,
}

impl Functions<'_> {
    fn check(&mut self, name: &syn::Ident, block: &syn::Block) {
        let (first, last) = (
            name.span().start().line,
            block.brace_token.span.close().end().line,
        );
        let lines = last + 1 - first;
        if lines > FUNCTION_LINES {
            self.found
                .push((self.source.path.clone(), name.to_string(), lines));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check(&item.sig.ident, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(&item.sig.ident, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.check(&item.sig.ident, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// Returns the functions that are too long: file, name and lines.
pub(crate) fn long_functions(source: &Source) -> Vec<(String, String, usize)> {
    let file =
        syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path));
    let mut functions = Functions {
        source,
        found: Vec::new(),
    };
    functions.visit_file(&file);
    functions.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_long_function_is_found() {
        let of = |lines: usize| Source {
            path: "planted.rs".to_owned(),
            text: format!("impl A {{ fn long() {{{}}} }}", "\n".repeat(lines - 1)),
        };
        assert!(long_functions(&of(FUNCTION_LINES)).is_empty());
        assert_eq!(long_functions(&of(FUNCTION_LINES + 1)).len(), 1);
    }
}
