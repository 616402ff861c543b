//! The ledger: for each account a list of its frames in the order of their stamps, and a tree that finds the
//! account whose head has the least stamp.
//!
//! Stamps are 64-bit numbers that increase from head to tail of a list. There is a list for each account,
//! because in a single list over all accounts a question would have to step over the protected frames of an
//! idle one.

use crate::{
    allocation::heads::{Heads, NO_STAMP},
    frame_table::FrameTable,
    ids::{AccountId, TenantId},
    list::NIL,
    tenant::{Account, Tenant},
};

/// Frames, accounts and tenants, and the order of entitlement over all of them.
pub(crate) struct Ledger {
    pub frames: FrameTable,
    pub tenants: Vec<Tenant>,
    pub accounts: Vec<Account>,
    /// Accounts with open lists of disclosed reads.
    pub hinting: Vec<AccountId>,
    /// References and loads so far; the stamp of the frame last moved to a tail.
    pub now: i64,
    /// Pages that came in so far.
    pub arrivals: u64,
    /// Stamp of the candidate for which a frame was last given up. Frames with lesser stamps had left by
    /// then, except busy and protected ones.
    pub departed_stamp: i64,
    /// Stamp of the frame last moved to the head.
    head_stamp: i64,
    all_heads: Heads,
    /// The same for accounts above their floor. Kept only while some account has a floor.
    open_heads: Heads,
    floors_frames: u64,
    /// Accounts of which frames were passed over during the question at hand, each with its first frame that
    /// was not.
    passed: Vec<(AccountId, u32)>,
}

/// The frames that the question at hand may still take.
pub(crate) struct Eligible {
    /// The account that asks.
    account: AccountId,
    /// Whether only the account's own frames are eligible: it is at its cap, or the question has [turned to
    /// them](Ledger::turn_to_own).
    only_own: bool,
    /// If so, the first of these that was not passed over.
    own_next: u32,
    /// Frames that were passed over, in rising order; for an allocation that does not go by the ledger's.
    refused: Vec<u32>,
    /// The frame passed over last, for an allocation that goes by an order of its own.
    last_passed: u32,
}

impl Eligible {
    /// The frame is not eligible any more.
    pub fn refuse(&mut self, frame: u32) {
        if let Err(at) = self.refused.binary_search(&frame) {
            self.refused.insert(at, frame);
        }
    }

    /// The account that asks.
    pub fn account(&self) -> AccountId {
        self.account
    }

    /// The question goes on behind `frame`, in the allocation's own order.
    pub fn go_on_behind(&mut self, frame: u32) {
        self.last_passed = frame;
    }

    /// The frame that the question goes on behind; [`NIL`] at its beginning.
    pub fn last_passed(&self) -> u32 {
        self.last_passed
    }
}

impl Ledger {
    /// Of empty frames, without accounts.
    pub fn new(frames: u32) -> Self {
        Self {
            frames: FrameTable::new(frames),
            tenants: Vec::new(),
            accounts: Vec::new(),
            hinting: Vec::new(),
            now: 0,
            arrivals: 0,
            departed_stamp: 0,
            head_stamp: 0,
            all_heads: Heads::default(),
            open_heads: Heads::default(),
            floors_frames: 0,
            passed: Vec::new(),
        }
    }

    /// Where the tenant's blocks are.
    #[inline]
    pub fn account(&self, tenant: TenantId) -> AccountId {
        self.tenants[tenant.index()].account
    }

    #[inline]
    pub fn account_of(&mut self, tenant: TenantId) -> &mut Account {
        let account = self.account(tenant);
        &mut self.accounts[account.index()]
    }

    /// Accounts were added; they have no frames.
    pub fn accounts_added(&mut self) {
        self.all_heads.grow(self.accounts.len());
        self.open_heads.grow(self.accounts.len());
    }

    /// Frames that are some account's floor.
    pub fn floors_frames(&self) -> u64 {
        self.floors_frames
    }

    /// Sets the frames that no other account can take.
    pub fn set_floor(&mut self, account: AccountId, floor_frames: u32) {
        let had_floors = self.floors_frames > 0;
        let floor = &mut self.accounts[account.index()].floor_frames;
        self.floors_frames = self.floors_frames - u64::from(*floor) + u64::from(floor_frames);
        *floor = floor_frames;
        if !had_floors {
            (0..self.accounts.len()).for_each(|other| self.ledger_changed(AccountId(other as u32)));
        }
        self.ledger_changed(account);
    }

    // ---- the order

    /// The frame goes to the tail of the account's list, with a new stamp. Returns whether it was the head;
    /// then [`ledger_changed`](Self::ledger_changed) has to follow.
    #[inline(always)]
    pub fn renew(&mut self, account: AccountId, frame: u32) -> bool {
        self.frames[frame].stamp = self.now;
        let list = &mut self.accounts[account.index()].ledger;
        let was_head = list.head() == frame;
        list.move_to_tail(&mut self.frames.ledger_links, frame);
        was_head
    }

    /// Adds a frame at the tail of the account's list, with a new stamp.
    #[inline(always)]
    pub fn append(&mut self, account: AccountId, frame: u32) {
        self.frames[frame].stamp = self.now;
        let list = &mut self.accounts[account.index()].ledger;
        let at_head = list.is_empty();
        list.push_tail(&mut self.frames.ledger_links, frame);
        self.list_changed(account, at_head);
    }

    /// Takes a frame out of the account's list.
    #[inline(always)]
    pub fn unlink(&mut self, account: AccountId, frame: u32) {
        let list = &mut self.accounts[account.index()].ledger;
        let at_head = list.head() == frame;
        list.remove(&mut self.frames.ledger_links, frame);
        self.list_changed(account, at_head);
    }

    /// Exchanges the positions of two frames of the account.
    pub fn swap(&mut self, account: AccountId, a: u32, b: u32) {
        let list = &mut self.accounts[account.index()].ledger;
        let at_head = [a, b].contains(&list.head());
        list.swap(&mut self.frames.ledger_links, a, b);
        let stamp = self.frames[a].stamp;
        self.frames[a].stamp = self.frames[b].stamp;
        self.frames[b].stamp = stamp;
        self.list_changed(account, at_head);
    }

    /// The frame is the next to go.
    pub fn move_to_head(&mut self, frame: u32) {
        let account = self.account(self.frames[frame].owner);
        let list = &mut self.accounts[account.index()].ledger;
        list.remove(&mut self.frames.ledger_links, frame);
        list.push_head(&mut self.frames.ledger_links, frame);
        self.head_stamp -= 1;
        self.frames[frame].stamp = self.head_stamp;
        self.ledger_changed(account);
    }

    /// Brings the heads up to date after a change of the account's list, which was `at_head` or has changed
    /// its length.
    #[inline]
    fn list_changed(&mut self, account: AccountId, at_head: bool) {
        if at_head || self.floors_frames > 0 {
            self.ledger_changed(account);
        }
    }

    /// Brings the heads up to date after a change of the account's list, floor or size.
    #[inline]
    pub fn ledger_changed(&mut self, account: AccountId) {
        let stamp = self.head_of(account);
        self.all_heads.set(account, stamp);
        if self.floors_frames > 0 {
            let open = self.accounts[account.index()].is_above_floor();
            self.open_heads.set(account, if open { stamp } else { NO_STAMP });
        }
    }

    fn head_of(&self, account: AccountId) -> i64 {
        match self.accounts[account.index()].ledger.head() {
            NIL => NO_STAMP,
            head => self.frames[head].stamp,
        }
    }

    // ---- a question

    /// A question of `account` begins: its own frames are eligible, and if it is below its cap, those of
    /// accounts above their floor.
    #[inline]
    pub fn begin(&mut self, account: AccountId) -> Eligible {
        let asks = &self.accounts[account.index()];
        let (only_own, own_next) = (asks.is_at_cap(), asks.ledger.head());
        let eligible = Eligible { account, only_own, own_next, refused: Vec::new(), last_passed: NIL };
        // One to which frames were granted takes those of others until it has them all.
        if !eligible.only_own && self.floors_frames > 0 && !asks.is_granted {
            // Its own floor does not protect an account from itself.
            self.open_heads.set(account, self.all_heads.stamp(account));
            self.passed.push((account, eligible.own_next));
        }
        eligible
    }

    /// No frame of others is left: the question goes on with the account's own, if these were granted to it
    /// and were not looked at yet.
    pub fn turn_to_own(&self, eligible: &mut Eligible) -> bool {
        let account = &self.accounts[eligible.account.index()];
        let turns = account.is_granted && !eligible.only_own;
        if turns {
            (eligible.only_own, eligible.own_next) = (true, account.ledger.head());
        }
        turns
    }

    /// Whether the question may take `frame`, for an allocation that does not go by the ledger's order.
    pub fn is_eligible(&self, eligible: &Eligible, frame: u32) -> bool {
        let owner = self.account(self.frames[frame].owner);
        let is_open = owner == eligible.account
            || !eligible.only_own
                && (self.floors_frames == 0 || self.accounts[owner.index()].is_above_floor());
        is_open && eligible.refused.binary_search(&frame).is_err()
    }

    /// The eligible frame of least stamp, or [`NIL`].
    #[inline]
    pub fn oldest(&self, eligible: &Eligible) -> u32 {
        if eligible.only_own {
            return eligible.own_next;
        }
        let Some(account) = self.open_heads().least() else { return NIL };
        match self.passed.iter().find(|(passed, _)| *passed == account) {
            Some((_, next)) => *next,
            None => self.accounts[account.index()].ledger.head(),
        }
    }

    /// Goes on behind `frame` in its account's list, for the question at hand.
    pub fn pass(&mut self, eligible: &mut Eligible, frame: u32) {
        let next = self.frames.ledger_links.next(frame);
        if eligible.only_own {
            eligible.own_next = next;
            return;
        }
        let account = self.account(self.frames[frame].owner);
        match self.passed.iter_mut().find(|(passed, _)| *passed == account) {
            Some(entry) => entry.1 = next,
            None => self.passed.push((account, next)),
        }
        let stamp = if next == NIL { NO_STAMP } else { self.frames[next].stamp };
        let heads = if self.floors_frames > 0 { &mut self.open_heads } else { &mut self.all_heads };
        heads.set(account, stamp);
    }

    /// The question has ended: nothing is passed over any more.
    #[inline]
    pub fn end(&mut self) {
        while let Some((account, _)) = self.passed.pop() {
            self.ledger_changed(account);
        }
    }

    /// The heads of the accounts that give up frames to others.
    #[inline]
    fn open_heads(&self) -> &Heads {
        if self.floors_frames > 0 { &self.open_heads } else { &self.all_heads }
    }

    /// The frames that a question would look at first, as far as they are one account's.
    pub fn upcoming(&self) -> impl Iterator<Item = u32> {
        let account = self.open_heads().least();
        account
            .into_iter()
            .flat_map(|account| self.accounts[account.index()].ledger.iter(&self.frames.ledger_links))
    }

    /// Where the heads of the first accounts are.
    pub fn place_of_heads(&self) -> *const u8 {
        self.all_heads.place()
    }

    /// The first two frames of [`upcoming`](Self::upcoming); the first one twice if there is no second.
    #[inline]
    pub fn next_two(&self) -> Option<[u32; 2]> {
        let account = self.open_heads().least()?;
        let first = self.accounts[account.index()].ledger.head();
        let second = self.frames.ledger_links.next(first);
        Some([first, if second == NIL { first } else { second }])
    }

    /// The least stamp of all frames, eligible or not.
    pub fn least_stamp(&self) -> i64 {
        let passed = self.passed.iter().map(|(account, _)| self.head_of(*account));
        passed.chain([self.all_heads.least_stamp()]).min().unwrap_or(NO_STAMP)
    }

    /// Bytes of memory held, without what managers and lists of hints have.
    pub fn metadata_bytes(&self) -> usize {
        self.frames.metadata_bytes()
            + self.tenants.capacity() * size_of::<Tenant>()
            + self.accounts.capacity() * size_of::<Account>()
            + self.all_heads.metadata_bytes()
            + self.open_heads.metadata_bytes()
            + self.passed.capacity() * size_of::<(AccountId, u32)>()
            + self.hinting.capacity() * size_of::<AccountId>()
    }

    /// Panics unless the account's list is in order, and the heads agree with it.
    pub fn check_account(&self, id: AccountId) {
        let account = &self.accounts[id.index()];
        account.ledger.check_invariants(&self.frames.ledger_links);
        let list: Vec<u32> = account.ledger.iter(&self.frames.ledger_links).collect();
        assert!(
            list.iter().all(|frame| self.account(self.frames[*frame].owner) == id),
            "owners in account {id:?}"
        );
        assert!(
            list.windows(2).all(|pair| self.frames[pair[0]].stamp < self.frames[pair[1]].stamp),
            "stamps of account {id:?} do not increase"
        );
        assert_eq!(self.all_heads.stamp(id), self.head_of(id), "head of account {id:?}");
        if self.floors_frames > 0 {
            let expected = if account.is_above_floor() { self.head_of(id) } else { NO_STAMP };
            assert_eq!(self.open_heads.stamp(id), expected, "open head of account {id:?}");
        }
        assert!(self.passed.is_empty(), "a question is open");
    }
}
