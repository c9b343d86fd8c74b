//! The state of a page as its events tell it: frames, documents and script contexts.
//!
//! A page can cause any number of events. Each is reduced to a few facts as it arrives, so that
//! nothing is queued.

use std::collections::VecDeque;

use tokio::sync::watch;

use super::connection::EventSink;
use super::error::BrowserError;
use super::event::{
    CONTEXTS_CLEARED, CdpEvent, ExecutionContextCreated, ExecutionContextDestroyed, FrameNavigated,
    LifecycleEvent, NavigatedWithinDocument, PageFrame,
};

/// The isolated world in which scripts of jobs run: the page's own scripts cannot change it.
pub(super) const ISOLATED_WORLD: &str = "tidemill";

/// How many documents of a page are remembered: it may have moved on since a caller looked.
const MAX_DOCUMENTS: usize = 16;

/// What is known of a page.
#[derive(Debug, Default)]
pub(super) struct PageState {
    pub(super) main_frame: String,
    pub(super) url: String,
    /// How often the URL changed without another document.
    pub(super) moves: u64,
    /// The documents of the main frame, the oldest first.
    documents: VecDeque<PageDocument>,
    /// The unique id of the isolated world in the present document.
    pub(super) isolated_world: Option<String>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct PageDocument {
    loader: String,
    is_loaded: bool,
    is_network_idle: bool,
}

impl PageState {
    fn set_frame(&mut self, frame: PageFrame) {
        self.main_frame = frame.id;
        self.url = frame.url + frame.url_fragment.as_deref().unwrap_or_default();
        self.document(frame.loader_id);
    }

    /// The document of a loader, which may be new.
    fn document(&mut self, loader: String) -> &mut PageDocument {
        let known = self.documents.iter().position(|document| document.loader == loader);
        let at = known.unwrap_or_else(|| {
            if self.documents.len() == MAX_DOCUMENTS {
                self.documents.pop_front();
            }
            self.documents.push_back(PageDocument { loader, ..PageDocument::default() });
            self.documents.len() - 1
        });
        &mut self.documents[at]
    }

    /// Whether a document, or one that has replaced it, has loaded.
    fn is_loaded(&self, loader: &str) -> bool {
        let mut since = self.documents.iter().skip_while(|document| document.loader != loader);
        since.any(|document| document.is_loaded)
    }

    fn is_network_idle(&self, loader: Option<&str>) -> bool {
        let is_wanted = |document: &PageDocument| loader.is_none_or(|loader| document.loader == loader);
        self.documents.iter().any(|document| document.is_network_idle && is_wanted(document))
    }

    /// Takes an event into account. Returns whether anything has changed.
    fn apply(&mut self, event: &CdpEvent<'_>) -> Option<()> {
        match event.method {
            FrameNavigated::METHOD => {
                let FrameNavigated { frame } = event.parse()?;
                frame.parent_id.is_none().then(|| self.set_frame(frame))
            }
            NavigatedWithinDocument::METHOD => {
                let NavigatedWithinDocument { frame_id, url } = event.parse()?;
                (frame_id == self.main_frame).then(|| (self.url, self.moves) = (url, self.moves + 1))
            }
            LifecycleEvent::METHOD => {
                let LifecycleEvent { frame_id, loader_id, name } = event.parse()?;
                (frame_id == self.main_frame).then(|| {
                    let document = self.document(loader_id);
                    match name.as_str() {
                        "load" => document.is_loaded = true,
                        "networkIdle" => document.is_network_idle = true,
                        _ => {}
                    }
                })
            }
            ExecutionContextCreated::METHOD => {
                let ExecutionContextCreated { context } = event.parse()?;
                let frame = context.aux_data.and_then(|owner| owner.frame_id);
                let is_ours = context.name == ISOLATED_WORLD && frame.as_ref() == Some(&self.main_frame);
                is_ours.then(|| self.isolated_world = Some(context.unique_id))
            }
            ExecutionContextDestroyed::METHOD => {
                let ExecutionContextDestroyed { execution_context_unique_id } = event.parse()?;
                let is_ours = self.isolated_world.as_ref() == Some(&execution_context_unique_id);
                is_ours.then(|| self.isolated_world = None)
            }
            CONTEXTS_CLEARED => self.isolated_world.take().map(drop),
            _ => None,
        }
    }
}

/// Keeps the state of one page.
pub(super) struct PageTracker {
    state: watch::Sender<PageState>,
}

impl PageTracker {
    /// The main frame of a new page has the id of its target.
    pub(super) fn new(target: &str) -> Self {
        let state = PageState { main_frame: target.to_owned(), ..PageState::default() };
        Self { state: watch::Sender::new(state) }
    }

    pub(super) fn set_frame(&self, frame: PageFrame) {
        self.state.send_modify(|state| state.set_frame(frame));
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&PageState) -> T) -> T {
        read(&self.state.borrow())
    }

    /// Waits until a document, or one that has replaced it, has loaded.
    pub(super) async fn wait_for_load(&self, loader: &str) -> Result<(), BrowserError> {
        self.wait_for(|state| state.is_loaded(loader)).await
    }

    /// Waits until the URL has changed within the document since there were `moves`.
    pub(super) async fn wait_for_move(&self, moves: u64) -> Result<(), BrowserError> {
        self.wait_for(|state| state.moves > moves).await
    }

    /// Waits until the network of a document is idle.
    pub(super) async fn wait_for_network_idle(&self, loader: Option<&str>) -> Result<(), BrowserError> {
        self.wait_for(|state| state.is_network_idle(loader)).await
    }

    async fn wait_for(&self, is_reached: impl Fn(&PageState) -> bool) -> Result<(), BrowserError> {
        let mut state = self.state.subscribe();
        match state.wait_for(|state| state.is_closed || is_reached(state)).await {
            Ok(state) if is_reached(&state) => Ok(()),
            _ => Err(BrowserError::Closed),
        }
    }
}

impl EventSink for PageTracker {
    fn accept(&self, event: &CdpEvent<'_>) -> bool {
        self.state.send_if_modified(|state| state.apply(event).is_some());
        false
    }

    fn close(&self) {
        self.state.send_modify(|state| state.is_closed = true);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    fn page() -> PageState {
        let frame = json!({ "id": "main", "loaderId": "0", "url": "about:blank" });
        let mut page = PageState::default();
        page.set_frame(serde_json::from_value(frame).unwrap());
        page
    }

    fn apply(page: &mut PageState, method: &str, params: Value) -> bool {
        let params = RawValue::from_string(params.to_string()).unwrap();
        page.apply(&CdpEvent { method, params: &params }).is_some()
    }

    fn lifecycle(page: &mut PageState, frame: &str, loader: &str, name: &str) -> bool {
        let event = json!({ "frameId": frame, "loaderId": loader, "name": name, "timestamp": 1.5 });
        apply(page, LifecycleEvent::METHOD, event)
    }

    #[test]
    fn a_document_has_loaded_when_it_or_a_later_one_has() {
        let mut page = page();
        lifecycle(&mut page, "main", "0", "load");
        lifecycle(&mut page, "main", "1", "init");
        lifecycle(&mut page, "frame", "7", "load");
        assert!(!page.is_loaded("1") && page.is_loaded("0"));
        lifecycle(&mut page, "main", "2", "load");
        assert!(page.is_loaded("1") && !page.is_loaded("7"));
        lifecycle(&mut page, "main", "1", "networkIdle");
        assert!(page.is_network_idle(Some("1")) && !page.is_network_idle(Some("2")));
    }

    #[test]
    fn only_the_last_documents_are_remembered() {
        let mut page = page();
        for loader in 0..1000 {
            lifecycle(&mut page, "main", &loader.to_string(), "load");
        }
        assert_eq!(page.documents.len(), MAX_DOCUMENTS);
        assert!(page.is_loaded("999") && !page.is_loaded("1"));
    }

    #[test]
    fn the_url_is_that_of_the_main_frame_with_its_fragment() {
        let mut page = page();
        let navigated = |id, parent: Value| {
            let url = format!("http://a/{id}");
            json!({ "frame": { "id": id, "parentId": parent, "loaderId": "1", "url": url, "urlFragment": "#b" } })
        };
        assert!(!apply(&mut page, FrameNavigated::METHOD, navigated("child", json!("main"))));
        assert!(apply(&mut page, FrameNavigated::METHOD, navigated("main", Value::Null)));
        assert_eq!(page.url, "http://a/main#b");
        let within = json!({ "frameId": "main", "url": "http://a/c" });
        assert!(apply(&mut page, NavigatedWithinDocument::METHOD, within));
        assert_eq!((page.url.as_str(), page.moves), ("http://a/c", 1));
    }

    #[test]
    fn the_isolated_world_is_that_of_the_present_document() {
        let mut page = page();
        let created = |name: &str, frame: &str, id: &str| json!({ "context": { "id": 1, "uniqueId": id, "name": name, "auxData": { "frameId": frame } } });
        for (name, frame) in [("", "main"), (ISOLATED_WORLD, "child")] {
            assert!(!apply(&mut page, ExecutionContextCreated::METHOD, created(name, frame, "x")));
        }
        assert!(apply(&mut page, ExecutionContextCreated::METHOD, created(ISOLATED_WORLD, "main", "a")));
        let destroyed = |id| json!({ "executionContextId": 1, "executionContextUniqueId": id });
        assert!(!apply(&mut page, ExecutionContextDestroyed::METHOD, destroyed("x")));
        assert!(apply(&mut page, ExecutionContextDestroyed::METHOD, destroyed("a")));
        assert!(apply(&mut page, ExecutionContextCreated::METHOD, created(ISOLATED_WORLD, "main", "b")));
        assert!(apply(&mut page, CONTEXTS_CLEARED, json!({})) && page.isolated_world.is_none());
    }
}
