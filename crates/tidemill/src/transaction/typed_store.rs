//! The store of a client as its concrete type.

use std::marker::PhantomData;
use std::sync::Arc;

use tidemill_core::{Client, Error, Store};

/// The client's store, if its type is `S`.
pub(crate) fn downcast_store<S: Store>(
    client: &Client,
    wanted: &'static str,
) -> Result<TypedStore<S>, Error> {
    if client.store().as_any().is::<S>() {
        return Ok(TypedStore { store: client.store().clone(), kind: PhantomData });
    }
    Err(Error::Invalid(format!("this transaction belongs to {wanted}, but the store is another database")))
}

/// A store whose concrete type is `S`.
pub(crate) struct TypedStore<S> {
    store: Arc<dyn Store>,
    kind: PhantomData<fn() -> S>,
}

impl<S: Store> TypedStore<S> {
    /// The store as its concrete type.
    pub(crate) fn get(&self) -> Result<&S, Error> {
        let wrong_type = || Error::Invalid("the store has another type".into());
        self.store.as_any().downcast_ref().ok_or_else(wrong_type)
    }
}
