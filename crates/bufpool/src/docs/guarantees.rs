//! What an engine may rely on, what each promise rests on, which test shows it, and what the pool does not do.
//!
//! A test is named `file::test`: a file of `crates/bufpool/tests/`, or of `crates/bufpool/src/` where it begins with `src/`. A test of the
//! crate checks that each of them exists.
//!
//! # What is acknowledged is durable
//!
//! | promise | rests on | shown by |
//! | --- | --- | --- |
//! | When [`File::flush`](crate::File::flush), [`File::close`](crate::File::close), [`Pool::checkpoint`](crate::Pool::checkpoint) or [`Pool::close`](crate::Pool::close) returns `Ok`, every change made before the call is on the device: a power cut loses none of it. | what was dirty when the call began is written, then one fdatasync a file; the device keeps what it has synced | `sweeps::nothing_is_lost_when_the_power_is_cut_at_any_call`, `sweeps::nothing_is_lost_when_the_power_is_cut_at_random`, `sweeps::nothing_is_lost_when_the_power_is_cut_while_frames_are_borrowed` |
//! | The same for one page and [`File::flush_page`](crate::File::flush_page). | the same | the same |
//! | If any call of the device fails, either the operation succeeds or it returns an error, and everything acknowledged before is there. | a page becomes clean only by a write that succeeded | `sweeps::nothing_is_lost_when_any_call_fails`, `sweeps::nothing_is_lost_when_any_call_fails_while_frames_are_borrowed` |
//! | What a failure leaves in memory stays readable as it was last changed. | a victim that cannot be written stays where it is | `sweeps::nothing_is_lost_when_any_call_fails`, `sweeps::nothing_is_lost_when_any_call_fails_while_frames_are_borrowed`, `write_back::a_victim_that_cannot_be_written_stays`, `write_back::a_page_whose_write_fails_in_the_background_stays_readable` |
//! | A process that is killed loses nothing that its engine made durable in its log or by a checkpoint. | the write-ahead rule below | `kill::nothing_acknowledged_is_lost_by_a_kill` |
//! | [`File::extend`](crate::File::extend) allocates space for real: a full device is reported there, before anything is overwritten, and the file goes on taking writes. | fallocate; a failed allocation is undone and poisons nothing | `write_back::a_full_device_is_reported_before_anything_is_overwritten`, `write_back::space_is_allocated_not_a_hole` |
//! | A new file's name is durable before its first page. | the folder is synced when a file is opened that may be new, or it is not opened | `src/io/file.rs::a_file_that_may_be_new_is_opened_with_its_name_durable`, `sweeps::nothing_is_lost_when_the_power_is_cut_at_any_call` |
//! | A file that [`File::remove`](crate::File::remove) has removed does not come back. | its folder is synced before the call returns `Ok` | `names::a_removal_and_a_creation_survive_a_power_cut`, `names::a_removal_that_is_not_durable_is_an_error`, `sweeps::nothing_is_lost_when_the_power_is_cut_at_any_call` |
//! | What is written goes to where it belongs: a descriptor that appends, or that allows less than the options ask for, is refused, and so is what is neither a regular file nor a block device, without waiting for it. | kind and flags are checked when a file is opened | `descriptors::a_descriptor_that_appends_is_refused`, `descriptors::a_descriptor_allows_what_the_options_ask_for`, `descriptors::what_is_not_a_file_of_pages_is_refused_and_not_waited_for` |
//! | A file stays the one that was opened: whoever changes the working directory, or renames, replaces or unlinks the file, does not make [`File::reopen`](crate::File::reopen) or [`File::remove`](crate::File::remove) make, read or delete another. | the path is looked up once; the file is known by its descriptor, its name by the folder's descriptor and the inode | `names::a_renamed_file_is_reopened_and_not_removed`, `names::a_replaced_file_is_reopened_and_who_replaced_it_is_not_removed`, `names::an_unlinked_file_is_reopened_and_made_by_nobody`, `names::a_file_in_a_renamed_folder_is_removed_there`, `names::a_file_opened_through_links_is_removed_itself`, `names::a_descriptor_is_reopened_as_it_is_and_has_no_name`, `working_directory::a_file_stays_the_one_that_was_opened_when_the_working_directory_changes` |
//!
//! # What is being written is whole
//!
//! | promise | rests on | shown by |
//! | --- | --- | --- |
//! | The pool never mixes two versions of a page in one write. | pages are written from a copy, or with their latch held | `sweeps::nothing_is_lost_when_the_power_is_cut_at_any_call`, `stress::all_operations_mixed_on_each_backend` |
//! | A change that arrives while its page is being written keeps the page dirty. | a write makes clean what carries the mark that was copied | `checkpoint::a_writer_that_arrives_during_a_flush_is_not_forgotten`, `src/loom_models.rs::a_writer_that_arrives_during_a_flush_stays_dirty` |
//! | No reader sees a page as it was before its last change, whatever is evicted meanwhile. | a page on its way out is held until the file has it | `stress::all_operations_mixed_on_each_backend`, `src/loom_models.rs::eviction_against_a_reader_and_a_pin` |
//! | Hooks change what is written, and never what is in memory. | they work on copies | `hooks::hooks_change_what_is_written_and_not_what_is_in_memory` |
//!
//! # The log comes first
//!
//! | promise | rests on | shown by |
//! | --- | --- | --- |
//! | No page is written while its number ([`WriteGuard::set_lsn`](crate::WriteGuard::set_lsn)) is above what the [`Log`](crate::engine::Log) says is durable. | every writer asks, whoever it is | `log::the_rule_holds_in_deterministic_mode`, `log::the_rule_holds_with_the_background_writer`, `log::what_changes_while_a_flush_advances_the_log_is_not_written_ahead_of_it` |
//! | [`Pool::min_dirty_lsn`](crate::Pool::min_dirty_lsn) is not above the first record that a page in its file lacks. | the log's end is noted before a guard is granted | the same |
//! | [`Log::advance`](crate::engine::Log::advance) is called by the background writer and by explicit flushes, never by a miss. | misses pass over pages that the log holds up | the same, which fail when it is |
//! | A log that fails or panics leaves its pages dirty, and is reported. | | `log::a_log_that_fails_or_panics_leaves_pages_dirty` |
//!
//! # Failures stay where they are
//!
//! | promise | rests on | shown by |
//! | --- | --- | --- |
//! | The first write or sync that fails poisons its file: it is read as before, and takes no writes until [`File::reopen`](crate::File::reopen), which says how many dirty pages are lost and begins with what the device has. | after a failed sync nobody knows what is on the device | `write_back::a_failed_sync_poisons_the_file`, `write_back::a_victim_that_cannot_be_written_stays`, `write_back::what_a_failed_sync_has_lost_shows_when_the_file_is_reopened`, `borrowing::a_reopening_that_fails_gives_frames_back_too`, `model::a_flush_after_a_failed_sync_syncs_again` |
//! | A sync that fails fails everybody who waited for it. | who waited looks again | `write_back::a_failed_sync_fails_everybody_who_waited_for_it` |
//! | No other file is harmed, and no tenant that does not use the failing one: a miss whose victim cannot be written takes another. Frames that dirty pages of a poisoned file occupy stay occupied; floors keep the rest for their owners. | poison is per file, and victims of poisoned files are passed over | `write_back::a_failing_file_harms_no_other`, `checkpoint::a_checkpoint_goes_on_after_a_failing_file`, `write_back::a_flush_goes_on_after_a_failure`, `checkpoint::a_checkpoint_passes_over_a_file_that_goes_meanwhile`, `sweeps::nothing_is_lost_when_any_call_fails_while_frames_are_borrowed` |
//! | A device that is gone, a file cut short by others, a page beyond the end: errors that name file and page. Nothing panics or hangs, and nothing is marked clean. | | `write_back::a_vanished_device_is_an_error_everywhere_and_loses_nothing_in_memory`, `write_back::a_file_shortened_behind_our_back_is_an_error`, `errors::pages_and_ranges_beyond_the_end_are_refused` |
//! | Page tables do not take the addresses that the rest of a limited process needs (`RLIMIT_AS`): reservations leave it a quarter of the limit, words that are needed at once a sixteenth. A page whose word finds no room is an error, and everything else goes on. | a table takes a share of what is left, and is refused by the pool before the system would | `few_addresses::page_tables_leave_addresses_to_the_rest_of_the_process`, `few_addresses::a_page_whose_word_finds_no_room_is_an_error` |
//! | Short, interrupted and cancelled transfers are continued. | one body of rules for all backends | `src/io/sim/tests.rs::short_and_interrupted_calls_are_continued` |
//! | A page that was torn, changed or written to another place is found when it is read, with the feature `checksum`; it is read twice before that is said. | CRC-32C over contents, file and page number | `hooks::damaged_and_misdirected_pages_are_found`, `hooks::checksums_may_lie_beside_the_pages`, `hooks::a_page_is_read_once_more_before_the_error` |
//!
//! # Nobody waits for ever
//!
//! | promise | rests on | shown by |
//! | --- | --- | --- |
//! | A miss waits for no write while the clean reserve has a frame; when it has none, it writes at most eight pages. | [`PoolOptions::reserve_high_frames`](crate::PoolOptions::reserve_high_frames) | `reserve::a_miss_waits_for_no_write_while_the_reserve_has_a_frame`, `reserve::a_miss_without_a_reserve_frame_writes_at_most_eight_waiting_victims` |
//! | A miss that finds every frame in use waits `frame_wait_ms` at most, and not at all where the caller holds them itself; the error counts the pins of each tenant. | | `errors::a_miss_waits_for_frames_of_other_threads_and_then_gives_up`, `errors::a_thread_that_holds_every_frame_is_told_at_once` |
//! | Frames that the clean reserve borrows while dirty victims stream out are nobody's by right, and come back to the pool: as soon as the reserve has more free frames than its own number, and those that are free at once when a miss finds no other; those of pages that cannot be written when their file is reopened, closed or removed, or when they are discarded. | they count to the reserve, and changes of how many under the policy lock | `reserve::a_stream_of_dirty_victims_borrows_frames_and_gives_them_back`, `reserve::promised_frames_are_not_borrowed`, `reserve::borrowed_frames_of_a_poisoned_file_come_back_when_it_is_reopened`, `reserve::borrowed_frames_come_back_to_who_waits_for_them`, `borrowing::frames_of_a_poisoned_file_come_back_however_its_pages_go`, `borrowing::everything_at_once_while_calls_fail`, `sweeps::nothing_is_lost_when_any_call_fails_while_frames_are_borrowed` |
//! | A latch is waited for `latch_wait_ms` at most. | | `errors::a_latch_wait_ends_and_names_the_page` |
//! | Flushes deadlock with nobody: not with a thread that holds a page and fetches another. | a flush holds nothing while it waits | `checkpoint::flushing_everything_while_a_latch_holder_misses`, `src/loom_models.rs::flushing_everything_against_a_holder_who_fetches_another_page` |
//! | Calls of [`Tenant::read_many`](crate::Tenant::read_many) deadlock with nobody, whatever their lists have in common. | a call that holds anything waits for the device only | `read_many::overlapping_batches_and_writers_make_progress` |
//! | A future that is dropped, whatever it has come to, leaves no latch, pin or frame behind; the load it began ends by itself, and the page is there for others. | a load owns its frame and the page's word until its completion | `cancel::dropped_in_any_state_it_leaves_nothing_behind`, `cancel::a_page_loaded_for_a_dropped_future_is_there_for_others`, `src/loom_models.rs::a_dropped_future_in_flight` |
//! | Nobody waits for an executor that does not poll: a future holds a pin at most. | | `cancel::waiting_futures_are_woken`, `src/loom_models.rs::a_future_that_waits_is_woken` |
//! | A prefetch that fails harms nobody: its frames are free again, and who needs the page gets the error. | | `prefetch::failures_at_every_read_lose_neither_frames_nor_changes`, `read_ahead::failures_reach_only_those_who_need_the_page` |
//! | Nobody sees an operation that closes, removes, reopens or shortens a file, or closes the pool, before it is decided, and nobody sees one that fails: accesses meanwhile are served, or wait as for a latch. | loads are held off, not refused, and all pages are latched, before the I/O that decides | `onlookers::a_file_is_reopened_while_others_use_it`, `onlookers::what_fails_because_of_a_pin_is_not_seen`, `onlookers::a_truncation_that_the_device_refuses_is_not_seen`, `onlookers::a_pool_that_stays_open_keeps_all_files`, `onlookers::those_who_wait_see_what_was_decided`, `src/loom_models.rs::a_load_that_is_held_off_sees_what_was_decided`, `src/loom_models.rs::a_future_that_is_held_off_is_woken` |
//! | Such an operation deadlocks with nobody: not with a thread that holds a page of the file and fetches another, and not with a second operation. | while it waits for a page it gives back from time to time what it holds; operations on a file take turns | `onlookers::what_fails_because_of_a_guard_is_not_seen`, `onlookers::operations_on_one_file_exclude_each_other` |
//! | Closing waits for what is in flight, and nothing is touched after it. | a closed file loads no page, and each page is latched before its frame is given away | `src/loom_models.rs::closing_with_reads_and_writes_in_flight`, `errors::what_was_closed_stays_closed`, `borrowing::a_pool_ends_while_writes_fail` |
//!
//! # Closing and dropping
//!
//! [`Pool::close`](crate::Pool::close) writes and syncs everything and reports failures; that is how an engine should end. Dropping the last
//! of all handles does the same and cannot report (`write_back::dropping_every_handle_writes_what_is_dirty`), except in a thread that is
//! panicking, which writes nothing: what it was in the middle of may be half done
//! (`write_back::a_thread_that_panics_with_the_last_handle_writes_nothing`). Dropping a [`File`](crate::File) alone does nothing: the file
//! stays open in the pool (`write_back::a_file_without_handles_is_given_back_with_its_pages`).
//!
//! # In the child of a fork
//!
//! | promise | rests on | shown by |
//! | --- | --- | --- |
//! | A child that is forked from the process that opened the pool gets [`ErrorKind::ForkedChild`](crate::ErrorKind::ForkedChild) from every call that can fail, futures included, also for a page that was in memory. What the others return is said at [`Pool`](crate::Pool). | page words and frames are wiped in the child, so no access succeeds there without asking whose the pool is | `fork::a_child_is_refused_everything_and_changes_nothing`, `fork::an_optimistic_read_during_which_a_process_forks_fails_in_the_child` |
//! | It waits for nothing: not for threads that it does not have, nor for locks that they held. | the question comes before every lock | `fork::a_child_waits_for_no_lock_of_threads_that_are_not_there` |
//! | Dropping handles, guards, pins and futures in the child does nothing; guards show zeros there. | the child's copy of the pool is never dropped, and a wiped word has nothing to let go of | `fork::guards_held_across_a_fork_show_zeros_and_let_go_of_nothing`, `fork::a_child_is_refused_everything_and_changes_nothing` |
//! | The parent's pool goes on as if nothing had happened, its files stay locked, and nothing is lost. | the child touches neither files nor their locks | the same |
//!
//! # What the pool does not do
//!
//! * It has **no log**: what was changed since the last checkpoint and not flushed is lost when the process ends. Engines that promise
//!   more keep a log, and give the pool a [`Log`](crate::engine::Log).
//! * It does **not repair torn pages**. A page that was being written when the power went may be a mix of two versions, unless the
//!   device writes pages atomically; checksums find it, and the engine's log (full-page images) or a double-write area repairs it.
//! * It gives **no order between pages**, other than the log's. Two pages changed together reach their files separately.
//! * It does **not know what a failed sync has lost**. Pages of a poisoned file that left memory before are read back as the device, or for
//!   buffered files the operating system, has them, until the file is reopened and the engine recovers.
//! * It trusts the device: one that acknowledges a sync and loses the data anyway breaks these promises.
//! * It does **not see changes by others** of a file it has open; the lock on the file keeps out those who ask for it.
//! * It does **not follow a file's name**: a file that was renamed, replaced or unlinked is still the one that is written,
//!   and what is unlinked is lost when it is closed. Between the look at a name and its removal, a file that others rename
//!   to the name is removed instead.
//!
//! # For engines that want the same tests
//!
//! The simulated device of these tests is public with the feature `sim`: `bufpool::sim::SimDevice`, with faults at any call,
//! latency, a limit on space, and power cuts.
