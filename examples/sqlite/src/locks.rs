//! The locks of SQLite's rollback mode, between the connections of this process.
//!
//! The states and who excludes whom are those of <https://sqlite.org/lockingv3.html>. Nothing waits: SQLite
//! calls its busy handler.

/// How far a connection has locked the database; each includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Level {
    #[default]
    None,
    /// Reads.
    Shared,
    /// Means to write; others may read.
    Reserved,
    /// Waits for the readers to leave; no new ones may come.
    Pending,
    /// Writes; nobody else has a lock.
    Exclusive,
}

/// The lock is in use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// What all connections to a database have locked.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// Connections with [`Level::Shared`] or more, the writer among them.
    readers: u32,
    /// Whether one connection has [`Level::Reserved`] or more, and which level.
    writer: Option<Level>,
}

impl Level {
    /// SQLite's number for it.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// The level with SQLite's number. Numbers above SQLite's count as the highest, those below as none.
    pub fn of_number(number: i32) -> Self {
        match number {
            ..=0 => Self::None,
            1 => Self::Shared,
            2 => Self::Reserved,
            3 => Self::Pending,
            4.. => Self::Exclusive,
        }
    }
}

impl Locks {
    /// Whether a connection means to write.
    pub fn is_reserved(&self) -> bool {
        self.writer.is_some()
    }

    /// Whether a connection has a lock.
    pub fn is_locked(&self) -> bool {
        self.readers > 0
    }

    /// Raises the caller's level from `level` to `wanted`. If [`Level::Exclusive`] is refused because there
    /// are readers, a caller with [`Level::Reserved`] or more is left with [`Level::Pending`]. A caller with
    /// [`Level::Shared`] keeps that, because SQLite goes on reading then.
    pub fn raise(&mut self, level: &mut Level, wanted: Level) -> Result<(), Busy> {
        if wanted <= *level {
            return Ok(());
        }
        if *level < Level::Shared {
            if self.writer >= Some(Level::Pending) {
                return Err(Busy);
            }
            self.readers += 1;
            *level = Level::Shared;
        }
        if wanted == Level::Shared {
            return Ok(());
        }
        let is_writer = *level >= Level::Reserved;
        if !is_writer && self.writer.is_some() {
            return Err(Busy);
        }
        let must_wait = wanted == Level::Exclusive && self.readers > 1;
        if must_wait && !is_writer {
            return Err(Busy);
        }
        *level = if must_wait { Level::Pending } else { wanted };
        self.writer = Some(*level);
        if must_wait { Err(Busy) } else { Ok(()) }
    }

    /// Lowers the caller's level from `level` to `wanted`, [`Level::Shared`] or [`Level::None`].
    pub fn lower(&mut self, level: &mut Level, wanted: Level) {
        if wanted >= *level {
            return;
        }
        if *level >= Level::Reserved {
            self.writer = None;
        }
        if wanted == Level::None {
            self.readers -= 1;
        }
        *level = wanted;
    }
}

#[cfg(test)]
mod tests {
    use super::{Busy, Level, Locks};

    #[test]
    fn a_writer_waits_for_readers_and_lets_no_new_ones_in() {
        let mut locks = Locks::default();
        let (mut reader, mut writer, mut late) = (Level::None, Level::None, Level::None);
        locks.raise(&mut reader, Level::Shared).unwrap();
        locks.raise(&mut writer, Level::Shared).unwrap();
        locks.raise(&mut writer, Level::Reserved).unwrap();
        assert!(locks.is_reserved());
        assert_eq!(locks.raise(&mut reader, Level::Reserved), Err(Busy));
        assert_eq!(locks.raise(&mut writer, Level::Exclusive), Err(Busy));
        assert_eq!(writer, Level::Pending);
        assert_eq!(locks.raise(&mut late, Level::Shared), Err(Busy));
        locks.lower(&mut reader, Level::None);
        locks.raise(&mut writer, Level::Exclusive).unwrap();
        assert_eq!((reader, writer, late), (Level::None, Level::Exclusive, Level::None));
        locks.lower(&mut writer, Level::Shared);
        assert!(!locks.is_reserved());
        locks.raise(&mut late, Level::Shared).unwrap();
    }

    /// As in WAL mode with `locking_mode = EXCLUSIVE`, where a connection that is refused goes on reading.
    #[test]
    fn a_reader_that_is_refused_keeps_nobody_from_reading() {
        let mut locks = Locks::default();
        let (mut one, mut two, mut late) = (Level::None, Level::None, Level::None);
        locks.raise(&mut one, Level::Shared).unwrap();
        locks.raise(&mut two, Level::Shared).unwrap();
        assert_eq!(locks.raise(&mut one, Level::Exclusive), Err(Busy));
        assert_eq!((one, locks.is_reserved()), (Level::Shared, false));
        locks.raise(&mut late, Level::Shared).unwrap();
        locks.raise(&mut two, Level::Reserved).unwrap();
    }

    #[test]
    fn a_hot_journal_is_rolled_back_under_an_exclusive_lock_that_was_not_reserved() {
        let mut locks = Locks::default();
        let mut level = Level::Shared;
        locks.readers = 1;
        locks.raise(&mut level, Level::Exclusive).unwrap();
        locks.lower(&mut level, Level::None);
        assert_eq!((locks.readers, locks.writer), (0, None));
    }
}
