//! `Rare`: what few connections have, in a box of its own.

use std::cell::{Cell, OnceCell};
use std::rc::Weak;

use super::engine::{Conn, Marks};
use crate::error::NetError;
use crate::layer::Layer;

/// What few connections have: other marks than the usual ones, what they were lost by, a layer on top.
pub(super) struct Rare {
    pub(super) marks: Cell<Marks>,
    pub(super) error: Cell<Option<NetError>>,
    layer: OnceCell<Weak<dyn Layer>>,
}

impl Conn {
    pub(super) fn rare(&self) -> &Rare {
        self.rare.get_or_init(|| {
            let marks = Cell::new(Marks::DEFAULT);
            Box::new(Rare { marks, error: Cell::default(), layer: OnceCell::new() })
        })
    }

    /// What users have is a layer that goes through this connection.
    #[cfg(feature = "tls")]
    pub(crate) fn set_layer(&self, layer: Weak<dyn Layer>) {
        // There is one at the most; a further one goes through that.
        let _ = self.rare().layer.set(layer);
    }

    /// Closes what users have: a layer ends its own connection first, and closes this one behind that.
    pub(crate) fn close_for_users(&self) {
        match self.rare.get().and_then(|rare| rare.layer.get()?.upgrade()) {
            Some(layer) => layer.close(),
            None => self.close(),
        }
    }
}
