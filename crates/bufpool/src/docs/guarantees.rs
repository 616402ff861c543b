//! What an engine may rely on, why, and which tests show it; and what the pool does not do.
//!
//! Each promise names its ground and its tests. A test is written `file::test`: a file of
//! `crates/bufpool/tests/`, or of `crates/bufpool/src/` where the name begins with `src/`. A test of the
//! crate checks that all of them exist.
//!
//! # What is acknowledged is durable
//!
//! **A flush is durable.** When [`File::flush`], [`File::close`], [`Pool::checkpoint`] or [`Pool::close`]
//! returns `Ok`, every change made before the call is on the device, and no power cut loses it; nor is a
//! change lost that was made while a file or the pool was being closed. The same holds for one page and
//! [`File::flush_page`]; and for [`File::begin_flush`] and [`File::flush_async`], of every change made before
//! the flush was begun, or the future first polled.
//! * Ground: what is dirty when the call begins is written, then each file has one fdatasync; the device
//!   keeps what it has synced.
//! * Tests: `sweeps::nothing_is_lost_when_the_power_is_cut_at_any_call`,
//!   `sweeps::nothing_is_lost_when_the_power_is_cut_at_random`,
//!   `sweeps::nothing_is_lost_when_the_power_is_cut_while_frames_are_borrowed`,
//!   `begun_flushes::what_was_dirty_when_it_was_begun_is_durable`,
//!   `begun_flushes::a_failure_is_told_to_everybody_who_waits`,
//!   `source::what_is_lost_while_a_file_is_closed_is_told`.
//!
//! **What a reopening drops is not acknowledged.** A call that makes durable what was dirty before
//! [`File::reopen`] has dropped it fails with [`FilePoisoned`](crate::ErrorKind::FilePoisoned).
//! * Ground: reopenings after a failure are counted, and the count is compared before the call succeeds. No
//!   sync is under way while a file is reopened.
//! * Tests: `leaving::nothing_is_acknowledged_that_a_reopening_has_dropped`,
//!   `leaving::a_file_is_not_reopened_while_it_is_synced`.
//!
//! **A failed call loses nothing that was acknowledged.** If any call of the device fails, the operation
//! succeeds all the same or returns an error, and everything acknowledged before is there.
//! * Ground: a page becomes clean only by a write that succeeded.
//! * Tests: `sweeps::nothing_is_lost_when_any_call_fails`,
//!   `sweeps::nothing_is_lost_when_any_call_fails_while_frames_are_borrowed`.
//!
//! **A failure leaves memory as it was.** Pages that could not be written stay readable as they were last
//! changed.
//! * Ground: a victim that cannot be written stays where it is.
//! * Tests: `sweeps::nothing_is_lost_when_any_call_fails`,
//!   `sweeps::nothing_is_lost_when_any_call_fails_while_frames_are_borrowed`,
//!   `write_back::a_victim_that_cannot_be_written_stays`,
//!   `write_back::a_page_whose_write_fails_in_the_background_stays_readable`.
//!
//! **A kill loses nothing that was made durable.** A process that is killed loses nothing that its engine
//! made durable in its log or by a checkpoint.
//! * Ground: [the log comes first](#the-log-comes-first).
//! * Tests: `kill::nothing_acknowledged_is_lost_by_a_kill`.
//!
//! **Space is allocated for real.** A full device is reported by [`File::extend`], before anything is
//! overwritten, and the file goes on taking writes.
//! * Ground: extending is an fallocate; one that fails is undone and poisons nothing.
//! * Tests: `write_back::a_full_device_is_reported_before_anything_is_overwritten`,
//!   `write_back::space_is_allocated_not_a_hole`.
//!
//! **A new file's name is durable before its first page.**
//! * Ground: the folder is synced when a file is opened that may be new; if that fails, the file is not
//!   opened.
//! * Tests: `src/io/local/open.rs::a_file_that_may_be_new_is_opened_with_its_name_durable`,
//!   `sweeps::nothing_is_lost_when_the_power_is_cut_at_any_call`.
//!
//! **A removed file does not come back** after [`File::remove`] has returned `Ok`.
//! * Ground: the folder is synced before the call returns.
//! * Tests: `names::a_removal_and_a_creation_survive_a_power_cut`,
//!   `names::a_removal_that_is_not_durable_is_an_error`,
//!   `sweeps::nothing_is_lost_when_the_power_is_cut_at_any_call`.
//!
//! **Writes go where they belong.** A descriptor that appends, or that allows less than the options ask for,
//! is refused. What is neither a regular file nor a block device is refused too, without waiting for it.
//! * Ground: kind and flags are checked when a file is opened.
//! * Tests: `descriptors::a_descriptor_that_appends_is_refused`,
//!   `descriptors::a_descriptor_allows_what_the_options_ask_for`,
//!   `descriptors::what_is_not_a_file_of_pages_is_refused_and_not_waited_for`.
//!
//! **A file stays the one that was opened.** If the working directory changes, or the file is renamed,
//! replaced or unlinked, [`File::reopen`] and [`File::remove`] do not make, read or delete another file.
//! * Ground: the path is looked up once. The file is known by its descriptor, its name by the descriptor of
//!   the folder and the inode.
//! * Tests: `names::a_renamed_file_is_reopened_and_not_removed`,
//!   `names::a_replaced_file_is_reopened_and_who_replaced_it_is_not_removed`,
//!   `names::an_unlinked_file_is_reopened_and_made_by_nobody`,
//!   `names::a_file_in_a_renamed_folder_is_removed_there`,
//!   `names::a_file_opened_through_links_is_removed_itself`,
//!   `names::a_descriptor_is_reopened_as_it_is_and_has_no_name`,
//!   `working_directory::a_file_stays_the_one_that_was_opened_when_the_working_directory_changes`.
//!
//! # What is written is whole
//!
//! **One write has one version of a page.**
//! * Ground: pages are written from a copy, or with their latch held.
//! * Tests: `sweeps::nothing_is_lost_when_the_power_is_cut_at_any_call`,
//!   `stress::all_operations_mixed_on_each_backend`.
//!
//! **A change during a write keeps the page dirty.**
//! * Ground: a write makes clean only what carries the mark that was copied.
//! * Tests: `checkpoint::a_writer_that_arrives_during_a_flush_is_not_forgotten`,
//!   `src/loom_models/write_back.rs::a_writer_that_arrives_during_a_flush_stays_dirty`.
//!
//! **No reader sees a page as it was before its last change**, whatever is evicted meanwhile.
//! * Ground: the word of a page on its way out is held until the file has the page.
//! * Tests: `stress::all_operations_mixed_on_each_backend`,
//!   `src/loom_models/latches.rs::eviction_against_a_reader_and_a_pin`.
//!
//! **What an optimistic read has confirmed is one version of the page**, whatever is written or evicted
//! meanwhile, and memory that is read without a latch is not written for another page.
//! * Ground: the version is looked at before the read and after it, and a frame that may still be read gets
//!   neither another page nor a copy of one.
//! * Tests: `optimistic::reads_are_whole_whatever_happens_meanwhile`,
//!   `optimistic::versions_follow_writes_and_departures`,
//!   `optimistic::a_version_of_before_does_not_come_again_when_the_file_is_opened_anew`,
//!   `src/page/readers.rs::reads_going_on_are_seen_to_end`,
//!   `src/write/page_out.rs::a_frame_that_is_being_read_gets_no_copy`.
//!
//! **A tier never makes a page older, or another.** A [tier](crate::tier) may answer with any copy in the
//! envelope that came with it, and may forget pages or fail to: what is read is what the file has.
//! * Ground: a copy is asked for by a version that no other contents of the page ever had, and carries that
//!   version and a hash. The two are not bound to each other: a tier that makes up an envelope is believed.
//! * Tests: `tiers::a_copy_of_before_is_never_served`, `tiers::what_is_not_what_was_asked_for_is_counted`,
//!   `tiers::a_copy_of_another_length_is_a_miss`,
//!   `tiers::a_tier_that_never_answers_is_passed_by`,
//!   `tiers_forget::late_forgets_never_bring_back_what_a_page_was`.
//!
//! **A length in bytes is set at one moment** ([`File::set_byte_len`]): whoever else changes the file's
//! length comes before it or after it, and what is flushed afterwards is in the file. One that fails changes
//! nothing.
//! * Ground: it has the file's length, and the new last page, to itself when it decides.
//! * Tests: `bytes::lengths_that_are_changed_at_a_time_come_one_after_the_other`,
//!   `bytes::a_length_that_cannot_be_set_changes_nothing`,
//!   `bytes::a_call_that_is_refused_leaves_the_length_as_it_is`.
//!
//! **What a file grows by is zeros**, in memory and in the file, whatever was written behind its end before.
//! * Ground: a file that ends within a page grows with that page to itself, and what is behind the end there
//!   is made zeros.
//! * Tests: `bytes::what_is_behind_the_end_is_zeros_when_the_file_grows`.
//!
//! **Hooks change what is written, never what is in memory.** Nothing of what they wrote is cut off.
//! * Ground: they work on copies. Where hooks change bytes, files that may end within a page are refused.
//! * Tests: `hooks::hooks_change_what_is_written_and_not_what_is_in_memory`,
//!   `bytes::hooks_that_change_pages_are_refused`.
//!
//! # The log comes first
//!
//! **No page is written ahead of the log.** A page whose number ([`WriteGuard::set_lsn`]) is above what the
//! [`Log`] says is durable stays in memory.
//! * Ground: every write compares the two numbers first.
//! * Tests: `log::the_rule_holds_in_deterministic_mode`,
//!   `log::the_rule_holds_with_the_background_writer`,
//!   `log::what_changes_while_a_flush_advances_the_log_is_not_written_ahead_of_it`,
//!   `log::no_page_is_written_ahead_of_the_log_because_a_program_wishes_it`.
//!
//! **Redo finds every change.** [`Pool::min_dirty_lsn`] is not above the first record of a change that is not
//! on its device.
//! * Ground: the log's end is noted before a guard is granted, and before frames are looked at. What is
//!   written counts until a sync that began later has succeeded.
//! * Tests: `log::the_rule_holds_in_deterministic_mode`,
//!   `log::the_rule_holds_with_the_background_writer`,
//!   `log::a_change_during_a_write_keeps_its_place_in_the_log`,
//!   `leaving::redo_finds_what_was_written_and_not_synced`,
//!   `leaving::redo_finds_what_a_failed_sync_has_lost`,
//!   `src/loom_models/unsynced.rs::what_was_written_is_seen_until_it_is_synced`,
//!   `src/state/dirty.rs::what_changes_behind_the_look_is_not_logged_before_the_answer`.
//!
//! **A miss never waits for the log.** [`Log::advance`] is called by the background writer and by explicit
//! flushes only.
//! * Ground: misses pass over pages that the log holds up.
//! * Tests: `log::the_rule_holds_in_deterministic_mode`,
//!   `log::the_rule_holds_with_the_background_writer`.
//!
//! **The log may wait for threads that miss pages**, for example because they hold its lock: the pool asks
//! the log for nothing while it holds a lock that misses need.
//! * Ground: the log is asked before the policy lock is taken, and before pages are held to be written.
//! * Tests: `log::the_log_is_not_asked_under_the_policy_lock`,
//!   `leaving::a_flush_in_place_does_not_advance_the_log_with_pages_held`,
//!   `leaving::a_file_needs_no_log_of_another`.
//!
//! **A log that fails or panics leaves its pages dirty**, and is reported.
//! * Ground: panics of call-backs are caught, and a page is written only if its number is durable afterwards.
//! * Tests: `log::a_log_that_fails_or_panics_leaves_pages_dirty`,
//!   `src/engine/log.rs::an_error_that_panics_when_shown_is_an_error_of_the_log`.
//!
//! # Failures stay where they are
//!
//! **The first failed write or sync poisons its file.** The file is read as before, and takes no writes until
//! [`File::reopen`], which says how many dirty pages are lost and begins with what the device has.
//! * Ground: after a failed sync nobody knows what is on the device.
//! * Tests: `write_back::a_failed_sync_poisons_the_file`,
//!   `write_back::a_victim_that_cannot_be_written_stays`,
//!   `write_back::what_a_failed_sync_has_lost_shows_when_the_file_is_reopened`,
//!   `borrowing::a_reopening_that_fails_gives_frames_back_too`,
//!   `model::a_flush_after_a_failed_sync_syncs_again`.
//!
//! **A failed sync fails everybody who waited for it.**
//! * Ground: a thread that shares a sync looks at its outcome afterwards.
//! * Tests: `write_back::a_failed_sync_fails_everybody_who_waited_for_it`.
//!
//! **A failing file harms no other file**, and no tenant that does not use it: a miss whose victim cannot be
//! written takes another victim. Frames of dirty pages of a poisoned file stay occupied; floors keep the
//! others for their owners.
//! * Ground: poison is per file, and victims of poisoned files are passed over.
//! * Tests: `write_back::a_failing_file_harms_no_other`,
//!   `checkpoint::a_checkpoint_goes_on_after_a_failing_file`,
//!   `write_back::a_flush_goes_on_after_a_failure`,
//!   `checkpoint::a_checkpoint_passes_over_a_file_that_goes_meanwhile`,
//!   `sweeps::nothing_is_lost_when_any_call_fails_while_frames_are_borrowed`.
//!
//! **A device that is gone, a file cut short by others, or a page beyond the end is an error** that names
//! file and page. Nothing panics or hangs, and nothing is marked clean.
//! * Ground: every operation completes with a result, and only a success makes a page clean or resident.
//! * Tests: `write_back::a_vanished_device_is_an_error_everywhere_and_loses_nothing_in_memory`,
//!   `write_back::a_file_shortened_behind_our_back_is_an_error`,
//!   `bytes::a_file_cut_short_by_others_is_an_error`,
//!   `errors::pages_and_ranges_beyond_the_end_are_refused`.
//!
//! **A source of the engine's that fails, panics or drops its requests** is an error only for those who
//! asked it for something: failed reads are their readers' errors, failed writes and syncs poison its file,
//! and other files notice nothing.
//! * Ground: each request ends once, also when it is dropped or the call panics; the source's code runs under
//!   no lock of the pool.
//! * Tests: `source::a_failed_read_is_the_readers_error_alone`,
//!   `source::a_failed_write_or_sync_poisons_the_file_alone`,
//!   `source::a_failed_change_of_length_changes_nothing`, `source::a_file_that_cannot_be_reopened_is_closed`,
//!   `hooks::a_hook_that_panics_poisons_the_file_and_nothing_else`,
//!   `source::a_report_holds_no_lock_while_it_asks_a_source`.
//!
//! **Page tables leave addresses to the process** under a limit (`RLIMIT_AS`): reservations leave it a
//! quarter of the limit, words that are needed at once a sixteenth. A page whose word finds no room is an
//! error, and everything else goes on.
//! * Ground: a table takes a share of what is left, and the pool refuses before the system would.
//! * Tests: `few_addresses::page_tables_leave_addresses_to_the_rest_of_the_process`,
//!   `few_addresses::a_page_whose_word_finds_no_room_is_an_error`.
//!
//! **Short, interrupted and cancelled transfers are continued.**
//! * Ground: one body of rules serves all backends.
//! * Tests: `src/io/sim/tests.rs::short_and_interrupted_calls_are_continued`.
//!
//! **Damaged pages are found when they are read**, with the feature `checksum`: pages that were torn, changed
//! or written to another place. A page is read twice before it counts as damaged.
//! * Ground: CRC-32C over contents, file and page number.
//! * Tests: `hooks::damaged_and_misdirected_pages_are_found`,
//!   `hooks::checksums_may_lie_beside_the_pages`,
//!   `hooks::a_page_is_read_once_more_before_the_error`.
//!
//! **A policy program harms nobody but its own tenant**, whatever it is and whatever it does: it ends, its
//! answers are checked, and no tenant misses a page because of it that plain LRU over all tenants would have
//! had. A program that keeps failing is unloaded.
//! * Ground: a program is verified when it is read and has fuel while it runs. An answer is one of the
//!   tenant's own pages that can be taken, or counts as the pool's candidate. Wrong answers are booked by
//!   LRU-SP like other managers'.
//! * Tests: `programs::programs_that_run_away_or_divide_by_zero_are_unloaded_and_disturb_nobody`,
//!   `programs::a_program_that_fails_in_mistake_is_unloaded`,
//!   `programs::bad_advice_costs_a_neighbour_no_hit`,
//!   `programs::answers_that_cannot_be_followed_are_counted_and_the_candidate_goes`,
//!   `programs::programs_are_swapped_while_pages_are_read_and_written`.
//!
//! **The automatic manager costs others nothing when it is wrong**: a tenant without a manager, whose pages
//! are its own, misses none because of it that plain LRU over all tenants would have had. That holds beside
//! any manager. The tenant with the automatic manager follows LRU again before long.
//! * Ground: LRU-SP books wrong answers to the tenant that gave them. LRU runs beside in miniature, and what
//!   it would not have missed counts against those who decided otherwise.
//! * Tests: `tenants::a_manager_that_learns_what_is_wrong_at_once_costs_others_nothing_and_itself_little`.
//!
//! **A privileged tenant's frames are its own**: it gets those that it was granted, and no other tenant takes
//! one.
//! * Ground: its floor is its cap, and no placeholder points to its frames.
//! * Tests: `programs::a_privileged_tenant_keeps_its_frames_and_gives_up_none_but_its_own`,
//!   `programs::a_privileged_tenant_grows_by_the_frames_of_others`.
//!
//! # Every wait ends
//!
//! **A miss waits for no write while the clean reserve has a frame.** When the reserve has none, the miss
//! writes at most eight pages.
//! * Ground: the frame of a dirty victim is exchanged for one of the reserve
//!   ([`PoolOptions::reserve_high_frames`]).
//! * Tests: `reserve::a_miss_waits_for_no_write_while_the_reserve_has_a_frame`,
//!   `reserve::a_miss_without_a_reserve_frame_writes_at_most_eight_waiting_victims`.
//!
//! **A miss waits for a frame `frame_wait_ms` at most**, and not at all where the caller holds all frames
//! itself. The error counts the pins of each tenant.
//! * Ground: the wait has a deadline, and a count of the holders shows whether waiting can help. Guards and
//!   pins are counted for each pool and thread.
//! * Tests: `errors::a_miss_waits_for_frames_of_other_threads_and_then_gives_up`,
//!   `errors::a_thread_that_holds_every_frame_is_told_at_once`,
//!   `errors::a_thread_that_holds_pages_of_other_pools_waits_all_the_same`,
//!   `errors::forgotten_guards_count_for_no_other_pool`.
//!
//! **A pinned page stays pinned**, however many of its pins are forgotten.
//! * Ground: pins are counted in 64 bits, which no process counts up to.
//! * Tests: `src/memory/frame.rs::a_page_with_more_pins_than_32_bits_count_is_pinned`.
//!
//! **The 256 bytes behind a page can be read**, for code in another language that reads whole words at the
//! end of a page it has the address of.
//! * Ground: frames lie side by side, and behind the last one the mapping goes on.
//! * Tests: `src/memory/arena.rs::what_is_behind_a_page_can_be_read`.
//!
//! **Borrowed frames come back to the pool.** The clean reserve borrows frames while dirty victims leave as
//! fast as they can be written, but none that a floor or a thread has a right to. They come back when the
//! reserve has more free frames than its own number. Free ones come back at once when a miss finds no other
//! frame. Frames of pages that cannot be written come back when the file is reopened, closed or removed, or
//! when the pages are discarded. Pages that wait for a log which cannot be advanced are different: a sound
//! file's cannot be given up.
//! * Ground: borrowed frames count to the reserve, and their number changes only under the policy lock.
//! * Tests: `reserve::a_stream_of_dirty_victims_borrows_frames_and_gives_them_back`,
//!   `reserve::promised_frames_are_not_borrowed`,
//!   `reserve::borrowed_frames_of_a_poisoned_file_come_back_when_it_is_reopened`,
//!   `reserve::borrowed_frames_come_back_to_who_waits_for_them`,
//!   `borrowing::frames_of_a_poisoned_file_come_back_however_its_pages_go`,
//!   `borrowing::everything_at_once_while_calls_fail`,
//!   `sweeps::nothing_is_lost_when_any_call_fails_while_frames_are_borrowed`.
//!
//! **A latch is waited for `latch_wait_ms` at most.**
//! * Ground: a waiting thread looks a bounded number of times, however often the page changes hands, and
//!   parks with a deadline.
//! * Tests: `errors::a_latch_wait_ends_and_names_the_page`,
//!   `src/page/latch.rs::a_wait_for_a_word_that_never_rests_ends_at_its_limit`.
//!
//! **A flush deadlocks with nobody**, not even with a thread that holds a page and fetches another.
//! * Ground: a flush holds nothing while it waits.
//! * Tests: `checkpoint::flushing_everything_while_a_latch_holder_misses`,
//!   `src/loom_models/write_back.rs::flushing_everything_against_a_holder_who_fetches_another_page`.
//!
//! **Calls of [`Tenant::read_many`] deadlock with nobody**, whatever their lists have in common.
//! * Ground: a call that holds anything waits for the device only.
//! * Tests: `read_many::overlapping_batches_and_writers_make_progress`,
//!   `read_many::pages_on_their_way_are_waited_for`,
//!   `src/loom_models/latches.rs::a_page_on_its_way_arrives_or_not_for_one_who_waits`.
//!
//! **A dropped future leaves nothing behind**: no latch, pin or frame, whatever it has come to. The load that
//! it began ends by itself, and the page is there for others.
//! * Ground: a load owns its frame and the page's word until its completion.
//! * Tests: `cancel::dropped_in_any_state_it_leaves_nothing_behind`,
//!   `cancel::a_page_loaded_for_a_dropped_future_is_there_for_others`,
//!   `src/loom_models/futures.rs::a_dropped_future_in_flight`.
//!
//! **Nobody waits for an executor that does not poll**, except for frames: each future whose page has come
//! in pins it until the future is polled or dropped.
//! * Ground: a future that is not polled holds a pin at most, and a pin keeps nobody from the page.
//! * Tests: `cancel::waiting_futures_are_woken`, `src/loom_models/futures.rs::a_future_that_waits_is_woken`.
//!
//! **What an executor does in its wakers harms nobody**, unless it waits there: a waker may try pages, drop
//! the pool's last handle, or panic, and all others are woken. See [`ReadFuture`](crate::ReadFuture).
//! * Ground: wakers are cloned, run and dropped under no lock, and run by a thread that nothing of the pool
//!   waits for.
//! * Tests: `wakers::a_waker_may_try_when_a_latch_is_let_go_of`,
//!   `wakers::a_waker_may_try_when_a_page_has_come_in`, `wakers::a_waker_may_try_when_a_page_has_left`,
//!   `wakers::a_waker_may_try_when_its_time_has_come`,
//!   `src/wakers.rs::a_waker_may_try_when_a_claim_has_failed`,
//!   `wakers::a_waker_that_panics_makes_nobody_forgotten`, `wakers::a_waker_that_panics_stops_no_clock`,
//!   `wakers::a_waker_that_panics_when_it_is_dropped_harms_nobody`,
//!   `wakers::a_waker_that_panics_when_it_is_cloned_harms_nobody`,
//!   `wakers::a_pool_may_be_dropped_in_a_waker`.
//!
//! **What promises not to wait does not wait for an optimistic reader**: `try_` forms, prefetches and polls
//! of futures return while another thread reads the frame that they would get.
//! * Ground: a frame that is read is set aside, and another is looked for.
//! * Tests: `optimistic::what_never_waits_does_not_wait_for_an_optimistic_reader`.
//!
//! **A failed prefetch harms nobody**: its frames are free again, and the error goes to the access that needs
//! the page.
//! * Ground: the completion gives up the frames of pages that were not read, and makes their words absent; so
//!   does one that a panic ends.
//! * Tests: `prefetch::failures_at_every_read_lose_neither_frames_nor_changes`,
//!   `read_ahead::failures_reach_only_those_who_need_the_page`,
//!   `src/load/prefetch.rs::a_prefetch_that_is_lost_is_counted_as_failed_and_its_frame_is_free`.
//!
//! **Closing, removing, reopening and shortening a file happen at one moment**, and so does closing the pool.
//! Others do not see such an operation before it is decided, and never see one that fails. Accesses meanwhile
//! are served, or wait as for a latch.
//! * Ground: loads are held off, not refused, and all pages are latched, before the I/O that decides.
//! * Tests: `onlookers::a_file_is_reopened_while_others_use_it`,
//!   `onlookers::what_fails_because_of_a_pin_is_not_seen`,
//!   `onlookers::a_truncation_that_the_device_refuses_is_not_seen`,
//!   `onlookers::a_pool_that_stays_open_keeps_all_files`,
//!   `onlookers::those_who_wait_see_what_was_decided`,
//!   `src/files/gate.rs::no_load_passes_the_gate_while_it_is_held_off`,
//!   `src/files/gate.rs::a_load_asks_anew_what_was_decided`,
//!   `src/loom_models/gate.rs::a_load_that_is_held_off_sees_what_was_decided`,
//!   `src/loom_models/gate.rs::a_future_that_is_held_off_is_woken`.
//!
//! **Such an operation deadlocks with nobody**: not with a thread that holds a page of the file and fetches
//! another, and not with a second operation.
//! * Ground: while it waits for a page it gives back what it holds from time to time; operations on a file
//!   take turns.
//! * Tests: `onlookers::what_fails_because_of_a_guard_is_not_seen`,
//!   `onlookers::operations_on_one_file_exclude_each_other`,
//!   `leaving::a_cut_in_bytes_waits_for_nobody_who_waits_for_it`,
//!   `leaving::a_closing_file_does_not_advance_the_log_with_its_pages_held`,
//!   `leaving::closing_waits_no_longer_than_its_limit_in_all`.
//!
//! **Owned guards and pins keep what they need**, on whatever thread: page, file and pool, also where they
//! are the last that is left of them.
//! * Ground: each has a share of a handle of its file, and lets go of the page first.
//! * Tests: `pins::owned_guards_and_pins_keep_what_they_need_wherever_they_go`,
//!   `pins::owned_guards_and_pins_keep_pages_and_latches_like_borrowed_ones`,
//!   `src/handle/keeper.rs::shares_that_threads_have_left_keep_no_pool`,
//!   `src/handle/keeper.rs::a_guard_that_outlives_its_handle_keeps_the_pool_until_it_ends_in_any_thread`.
//!
//! **Half a change of a writer that panics is seen by nobody and written nowhere**, in a file that is opened
//! with [`FileOptions::poison_on_panic`]. The page is as its file has it once it is discarded.
//! * Ground: the writer's latch is kept, and no way to the page leads past it. The page keeps its frame as
//!   long as a write that began before is in flight, and its poison if the operation that would drop it
//!   fails.
//! * Tests: `errors::a_page_whose_writer_panics_is_poisoned_if_its_file_says_so`,
//!   `log::a_half_changed_page_is_not_dropped_while_it_is_written`,
//!   `errors::a_guard_that_a_panic_downgrades_has_ended_its_change`,
//!   `errors::discards_of_half_changed_pages_come_one_after_the_other`.
//!
//! **A manager or recorder of the engine's that calls the pool back waits for nothing**: the call fails with
//! [`ErrorKind::SelfDeadlock`], and a call that cannot fail does nothing.
//! * Ground: the thread knows that the pool has called it, and is asked before every lock.
//! * Tests: `wants::a_manager_that_calls_the_pool_back_is_refused`,
//!   `hints::a_manager_that_has_a_list_waits_for_nothing`.
//!
//! **A recorder that panics changes nothing** but that it is told nothing more.
//! * Ground: its panics are caught where it is called.
//! * Tests: `recording::a_recorder_that_panics_hears_no_more_and_changes_nothing`.
//!
//! **Statistics and the redo point** ([`Pool::min_dirty_lsn`]) **keep nobody waiting for long**: whatever
//! the number of frames, they hold the policy lock for only a few tenants, contexts, streams or threads, or
//! a thousand frames, at a time.
//! * Ground: what statistics would have to count frame by frame is kept as a count.
//! * Tests: `src/api/stats.rs::statistics_hold_the_policy_lock_for_a_few_things_at_a_time`,
//!   `src/state/dirty.rs::the_policy_lock_is_held_for_a_few_frames_at_a_time`.
//!
//! **Threads that have ended leave nothing behind for long**: there are not many more access logs than there
//! were threads at one time, also where nobody asks for statistics.
//! * Ground: a miss, and a thread that begins, take back a few logs of threads that have ended.
//! * Tests: `src/hits/log.rs::threads_that_begin_take_back_the_logs_of_threads_that_have_ended`,
//!   `src/hits/log.rs::misses_take_back_the_logs_of_threads_that_have_ended`.
//!
//! # Closing and dropping
//!
//! **Closing waits for what is in flight**, and nothing is touched after it.
//! * Ground: a closed file loads no page, and each page is latched before its frame is given away.
//! * Tests: `src/loom_models/gate.rs::closing_with_reads_and_writes_in_flight`,
//!   `errors::what_was_closed_stays_closed`, `borrowing::a_pool_ends_while_writes_fail`.
//!
//! **Dropping the last handle writes what is dirty**, as [`Pool::close`] does, but cannot report a failure.
//! An engine should end with [`Pool::close`].
//! * Ground: the pool lives until all its threads and handles are gone, and its end is a checkpoint. The drop
//!   waits for transfers in flight and for answers of the tier, which keep the pool as long as they are told.
//! * Tests: `write_back::dropping_every_handle_writes_what_is_dirty`,
//!   `tiers_closing::the_last_handle_waits_for_the_tiers_answers`.
//!
//! **A closed file or pool leaves to others what was its own.** A file that is reported as closed can be
//! opened again; a tier belongs to the pool that has it by then.
//! * Ground: opening waits for a file that is on its way out; a pool lets go of its tier once, after its
//!   calls are over or have taken `tier_wait_ms`.
//! * Tests: `tiers_closing::a_file_that_is_closed_is_not_given_out_again`,
//!   `tiers_closing::a_closed_pool_leaves_the_tier_to_the_next`,
//!   `tiers_closing::a_tier_is_let_go_of_when_its_calls_are_over`.
//!
//! **A thread that is panicking writes nothing** when it drops the last handle: the change that it was making
//! may be half done.
//! * Ground: the drop notes whether its thread is panicking, whichever thread ends the pool.
//! * Tests: `write_back::a_thread_that_panics_with_the_last_handle_writes_nothing`,
//!   `tiers_closing::the_last_handle_waits_for_the_tiers_answers`.
//!
//! **Dropping a [`File`] closes nothing.** The file stays open in the pool, and opening it again gives it
//! back.
//! * Ground: the pool has a share of each open file.
//! * Tests: `write_back::a_file_without_handles_is_given_back_with_its_pages`.
//!
//! # In the child of a fork
//!
//! **Every call that can fail fails with [`ErrorKind::ForkedChild`]** in a child that is forked from the
//! process that opened the pool, futures included, also for a page that was in memory. [`Pool`] says what
//! the other calls return.
//! * Ground: page words and frames are wiped in the child, so no access succeeds there without asking which
//!   process the pool belongs to.
//! * Tests: `fork::a_child_is_refused_everything_and_changes_nothing`,
//!   `fork::an_optimistic_read_during_which_a_process_forks_fails_in_the_child`.
//!
//! **The child waits for nothing**: not for threads that it does not have, nor for locks that they held.
//! * Ground: the question comes before every lock.
//! * Tests: `fork::a_child_waits_for_no_lock_of_threads_that_are_not_there`,
//!   `src/handle/keeper.rs::the_child_of_a_fork_waits_for_no_thread_that_has_the_places`.
//!
//! **Dropping handles, guards, pins and futures in the child does nothing.** Guards show zeros there.
//! * Ground: the child's copy of the pool is never dropped, and a wiped word has nothing to release.
//! * Tests: `fork::guards_held_across_a_fork_show_zeros_and_let_go_of_nothing`,
//!   `fork::a_child_is_refused_everything_and_changes_nothing`,
//!   `fork::a_pool_of_the_childs_own_ends_with_its_last_guard`.
//!
//! **The parent's pool is not affected.** Its files stay locked, and nothing is lost.
//! * Ground: the child touches neither the files nor their locks.
//! * Tests: `fork::a_child_is_refused_everything_and_changes_nothing`.
//!
//! # Names, options and reading ahead
//!
//! **A page's name is always of its own file**, also if its number is above all that a file can have.
//! * Ground: such a number has the name of the last page there can be.
//! * Tests: `prefetch::numbers_beyond_all_files_name_no_other_files_page`.
//!
//! **A file that is open is not given back under other options.** Opening it again fails with
//! [`ErrorKind::FileAlreadyOpen`], and names the option.
//! * Ground: options are compared when a file without handles is opened.
//! * Tests: `errors::a_file_without_handles_is_not_given_back_with_other_options`.
//!
//! **The iterator of a prefetch may use the pool**, the pages included that it has named, and may panic.
//! * Ground: it is asked for all pages of a batch before the first is claimed.
//! * Tests: `prefetch::the_iterator_may_read_what_it_has_named`,
//!   `prefetch::an_iterator_that_panics_leaves_the_other_pages_absent`.
//!
//! **Read-ahead does not switch itself off.** Inner pages among the leaves of a scan, round after round,
//! leave it as it is, and a stream that was wasteful earns its credit again.
//! * Ground: waste is weighed by pages, and a stray access does not end a run.
//! * Tests: `read_ahead::inner_pages_among_leaves_do_not_end_read_ahead`,
//!   `read_ahead::inner_pages_in_a_real_file_do_not_end_read_ahead`,
//!   `read_ahead::scans_that_break_off_waste_a_bounded_share`.
//!
//! **Read-ahead that is wrong stops.** Of what is brought in ahead, no more stays unused than a first window
//! for sequential reads and one for strided ones, a quarter of what is used, or would have been, and a
//! transfer.
//! * Ground: pages ahead are paid for with a credit that only used ones earn, or those that would have been.
//! * Tests: `read_ahead::scans_that_break_off_waste_a_bounded_share`,
//!   `read_ahead::a_slow_scan_that_ends_leaves_two_transfers_unused`,
//!   `src/load/prefetch.rs::the_planner_hears_of_pages_that_are_awaited`.
//!
//! # What the pool does not do
//!
//! * It has **no log**. Changes that were not flushed are lost when the process ends. Engines that promise
//!   more keep a log, and give the pool a [`Log`].
//! * It does **not repair torn pages**. A page that was being written when the power went may be a mix of two
//!   versions, unless the device writes pages atomically. Checksums find it; the engine's log (full-page
//!   images) or a double-write area repairs it.
//! * It gives **no order between pages** other than the log's. Two pages changed together reach their files
//!   separately.
//! * It does **not know what a failed sync has lost**. Pages of a poisoned file that left memory before are
//!   read back as the device, or for buffered files the operating system, has them, until the file is
//!   reopened and the engine recovers.
//! * It **trusts the device**: one that acknowledges a sync and loses the data breaks these promises.
//! * It does **not take back what a writer has begun**. A thread that panics while it holds a write guard
//!   leaves what it has changed so far, half a change perhaps, and that is flushed like any other. An engine
//!   whose writers may panic opens the file with [`FileOptions::poison_on_panic`], or changes a copy and
//!   takes it over at once ([`Tenant::overwrite`]).
//! * It does **not see changes by others** to a file it has open. The lock on the file keeps out programs
//!   that ask for it. What others cut off a file of bytes reads as zeros within the page of the cut: see
//!   [`FileOptions::bytes`].
//! * It does **not follow a file's name**. A file that was renamed, replaced or unlinked is still the one
//!   that is written, and an unlinked file is lost when it is closed. Between the look at a name and its
//!   removal, a file that others rename to the name is removed instead.
//!
//! # For engines that want the same tests
//!
//! The simulated device of these tests is public with the feature `sim`: `bufpool::sim::SimDevice`, with
//! faults at any call, latency, a limit on space, and power cuts.

#[cfg(doc)]
use crate::{ErrorKind, File, FileOptions, Pool, PoolOptions, Tenant, WriteGuard, engine::Log};
