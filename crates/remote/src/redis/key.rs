//! The names that pages have at the server.

use bufpool::engine::PageName;
use bufpool::tier::Version;

/// Makes keys. A key is text without braces, so that clusters spread pages over their nodes, and says which
/// contents of which page of which file it is for. So an outdated copy is never asked for again.
pub(super) struct Keys {
    namespace: String,
    /// Drawn when the pool was opened: names files without a tag, if the tier has a single pool.
    instance: Option<u64>,
}

impl Keys {
    pub fn new(namespace: String, instance: Option<u64>) -> Self {
        Self { namespace, instance }
    }

    /// None for a page of a file without a tag, if files of other pools could have the same name.
    pub fn of(&self, page: PageName, version: Version) -> Option<String> {
        let (number, Version { epoch, count, .. }) = (page.number, version);
        let namespace = &self.namespace;
        if page.file_tag != 0 {
            return Some(format!("{namespace}:{:x}:{number:x}:{epoch:x}:{count:x}", page.file_tag));
        }
        let file = page.file.0;
        self.instance
            .map(|instance| format!("{namespace}:{instance:x}/{file:x}:{number:x}:{epoch:x}:{count:x}"))
    }
}

/// What is wrong with a namespace, if anything is.
pub(super) fn namespace_error(namespace: &str) -> Option<String> {
    const BYTES_MAX: usize = 64;
    let is_right = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}' | b':');
    let is_wrong = namespace.is_empty() || namespace.len() > BYTES_MAX || !namespace.bytes().all(is_right);
    is_wrong.then(|| {
        format!(
            "namespace {namespace:?}: expected 1 to {BYTES_MAX} visible ASCII characters, without braces and colons"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use bufpool_policies::FileId;

    use super::*;

    #[test]
    fn no_two_contents_have_one_key_and_no_key_has_braces() {
        let keys = Keys::new("n".into(), Some(7));
        let mut seen = HashSet::new();
        let numbers = [0, 1, 0x11, 0x7b, 0x7d, u64::MAX];
        for file_tag in numbers {
            for number in numbers {
                for epoch in numbers {
                    for count in numbers {
                        let page = PageName { file: FileId(3), file_tag, number };
                        let key = keys.of(page, Version { epoch, count }).unwrap();
                        assert!(!key.contains(['{', '}']), "{key}");
                        assert!(seen.insert(key));
                    }
                }
            }
        }
    }

    #[test]
    fn files_without_a_tag_have_keys_of_one_pool_alone() {
        let page = |file| PageName { file: FileId(file), file_tag: 0, number: 1 };
        let version = Version { epoch: 1, count: 0 };
        assert_eq!(Keys::new("n".into(), None).of(page(1), version), None);
        let key = |instance, file| Keys::new("n".into(), Some(instance)).of(page(file), version).unwrap();
        assert_eq!(HashSet::from([key(1, 1), key(1, 2), key(2, 1)]).len(), 3);
    }

    #[test]
    fn namespaces_that_could_be_mistaken_are_refused() {
        for right in ["a", "orders.2024/x", &"x".repeat(64)] {
            assert_eq!(namespace_error(right), None);
        }
        for wrong in ["", "a{b}", "a:b", "a b", "ä", &"x".repeat(65)] {
            assert!(namespace_error(wrong).is_some_and(|message| message.contains("expected")), "{wrong}");
        }
    }
}
