//! Files on object stores.
//!
//! ```
//! use std::sync::Arc;
//!
//! use bufpool::{FileOptions, PoolOptions};
//! use bufpool_remote::object::{ObjectOptions, ObjectSource, object_store::memory::InMemory};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Arc::new(InMemory::new());
//! let options = ObjectOptions::new().page_bytes(4096);
//! let source = ObjectSource::create(store.clone(), "orders", options.clone())?;
//! let pool = PoolOptions::new().frames(64).page_bytes(4096).open()?;
//! let orders = pool.open_source(source, FileOptions::new())?;
//! for number in orders.extend(10)? {
//!     pool.default_tenant().create(orders.page(number))?.fill(7);
//! }
//! orders.flush()?; // chunks are uploaded, and a manifest is committed
//! pool.close()?;
//!
//! let pool = PoolOptions::new().frames(64).page_bytes(4096).open()?;
//! let source = ObjectSource::open_read_only(store, "orders", options)?;
//! let orders = pool.open_source(source, FileOptions::new().read_only(true))?;
//! assert_eq!(pool.default_tenant().read(orders.page(9))?[0], 7);
//! # Ok(())
//! # }
//! ```
//!
//! # What is on the store
//!
//! Under its prefix a file has *chunks* (`chunk/`), immutable objects of up to 256 pages, and *manifests*
//! (`manifest/`), each of which says which chunk has which page. A miss reads a run of pages by a range
//! request. Each page is checked by itself when it comes in; what is damaged, cut short or in the wrong place
//! is [`ObjectError::Corrupt`], which names object and page.
//!
//! # Writing
//!
//! Written pages gather to chunks in memory, which are uploaded as they get full; reads see them at once. A
//! sync, as by [`File::flush`](bufpool::File::flush), uploads the rest and commits the manifest with the next
//! number, by a put that succeeds only if there is no object of that name. It is the one moment at which a
//! change happens: a crash leaves the manifest that was committed last, with all its pages. So a flush is
//! atomic for the file, which one of a local file is not.
//!
//! Of two writers the first that commits wins. The other gets [`ObjectError::Superseded`], and its file is
//! poisoned; [`File::reopen`](bufpool::File::reopen) begins with what the winner has committed. A writer
//! whose answer is lost reads the manifest, and knows its own again. A store that accepts two conditional
//! puts of one name would break all this, so it is tried when a file is opened, and such a store is read
//! only.
//!
//! A manifest is written whole with each commit: 24 bytes for each run of pages that are neighbours in the
//! file and in a chunk, and 32 for each chunk. A file that is changed at random in many commits gets many
//! runs, and chunks of which few pages are used; nothing joins them but writing the pages again.
//!
//! # Reading what others write
//!
//! A source shows the manifest that was the newest when it was opened, however many follow, and
//! [`File::reopen`](bufpool::File::reopen) shows the newest. What the manifest has is kept for
//! [`ObjectOptions::grace_secs`] after it was superseded. Later a page may be gone, if garbage was collected:
//! [`ObjectError::ChunkGone`]. Pages of two manifests are never mixed.
//!
//! # Durability
//!
//! As durable as the store's puts. Those of a folder
//! ([`LocalFileSystem`](object_store::local::LocalFileSystem)) survive a power cut only `with_fsync(true)`.

mod chunk;
mod collect;
mod error;
mod folder;
mod history;
mod import;
mod landing;
mod manifest;
mod map;
mod options;
mod probe;
mod source;
mod state;
mod store;
mod worker;
mod write;

pub use object_store;

pub use self::collect::Collected;
pub use self::error::ObjectError;
pub use self::import::import;
pub use self::options::ObjectOptions;
pub use self::source::{ObjectReport, ObjectSource};
pub use self::worker::Worker;
