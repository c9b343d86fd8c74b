//! Pages of lists.

use tidemill_core::store::Page;

/// Makes a page of items. If the page is full, its cursor is that of its last item.
pub(super) fn page<T>(items: Vec<T>, limit: usize, cursor: impl FnOnce(&T) -> String) -> Page<T> {
    let next = items.last().filter(|_| items.len() == limit).map(cursor);
    Page { items, next }
}
