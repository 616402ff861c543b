//! How fast tenants access pages, and what reads cost.
//! [`Allocation::CostBenefit`](bufpool_policies::Allocation::CostBenefit) prices frames by these.

use std::time::{Duration, Instant};

use bufpool_policies::hints::CostModel;
use bufpool_policies::{CostBenefitOptions, Directory, TenantId};

/// A measurement's part of the moving averages.
const SHARE: f64 = 1.0 / 16.0;
/// Measurements after which frames are priced anew.
const MEASUREMENTS: u32 = 64;
/// The most accesses of one measurement that are averaged in. The averages go back no farther.
const ACCESSES_MAX: u32 = 256;

/// Measures rates and costs, under the policy lock.
///
/// The time that a tenant takes from the end of an access to the start of the next one is known at its misses
/// only: hits are told later. So it is taken for all accesses since the last miss together. In deterministic
/// mode nothing is measured: all tenants have the published costs' rate.
pub(crate) struct Pricing {
    is_deterministic: bool,
    tenants: Vec<AccessRate>,
    costs: CostModel,
    measurements: u32,
}

/// How fast a tenant goes.
#[derive(Clone, Default)]
struct AccessRate {
    /// When its last wait ended.
    since: Option<Instant>,
    /// Accesses since then.
    accesses: u32,
    /// When its wait for a page began, if it waits.
    waits: Option<Instant>,
}

impl Pricing {
    pub fn new(is_deterministic: bool) -> Self {
        Self { is_deterministic, tenants: Vec::new(), costs: CostModel::default(), measurements: 0 }
    }

    /// A tenant found its page in memory, or made a new one.
    pub fn found(&mut self, tenant: TenantId) {
        let rate = self.rate(tenant);
        rate.accesses = rate.accesses.saturating_add(1);
    }

    /// A tenant begins to wait for a page that it misses.
    pub fn missed(&mut self, directory: &mut Directory, tenant: TenantId) {
        if self.is_deterministic {
            directory.note_gap(tenant, self.costs.hit_us);
            return;
        }
        let now = Instant::now();
        let rate = self.rate(tenant);
        let accesses = std::mem::take(&mut rate.accesses).saturating_add(1);
        let since = rate.since.take();
        if rate.waits.replace(now).is_none()
            && let Some(since) = since
        {
            self.accessed(directory, tenant, accesses, now.duration_since(since));
        }
    }

    /// A tenant made `accesses`, for which it took `busy`, waits left out.
    pub fn accessed(&mut self, directory: &mut Directory, tenant: TenantId, accesses: u32, busy: Duration) {
        if self.is_deterministic || accesses == 0 {
            return;
        }
        let gap_us = busy.as_secs_f64() * 1e6 / f64::from(accesses);
        (0..accesses.min(ACCESSES_MAX)).for_each(|_| directory.note_gap(tenant, gap_us));
        self.costs.hit_us = moved(self.costs.hit_us, gap_us);
        self.measured(directory);
    }

    /// The page that a tenant waited for is there, or does not come.
    pub fn ended(&mut self, directory: &mut Directory, tenant: TenantId) {
        if self.is_deterministic {
            return;
        }
        let now = Instant::now();
        let rate = self.rate(tenant);
        rate.since = Some(now);
        if let Some(began) = rate.waits.take() {
            self.costs.disk_us = moved(self.costs.disk_us, micros(now.duration_since(began)));
            self.measured(directory);
        }
    }

    /// A transfer ahead took that long, and its submission kept the processor that long.
    pub fn read_ahead(&mut self, directory: &mut Directory, took: Duration, submitting: Duration) {
        if self.is_deterministic {
            return;
        }
        self.costs.disk_us = moved(self.costs.disk_us, micros(took));
        self.costs.driver_us = moved(self.costs.driver_us, micros(submitting));
        self.measured(directory);
    }

    fn measured(&mut self, directory: &mut Directory) {
        self.measurements += 1;
        if self.measurements >= MEASUREMENTS {
            self.measurements = 0;
            directory.price_by(CostBenefitOptions { costs: self.costs, ..CostBenefitOptions::default() });
        }
    }

    fn rate(&mut self, tenant: TenantId) -> &mut AccessRate {
        if self.tenants.len() <= tenant.index() {
            self.tenants.resize(tenant.index() + 1, AccessRate::default());
        }
        &mut self.tenants[tenant.index()]
    }
}

fn moved(mean: f64, sample: f64) -> f64 {
    // Costs are above 0.
    (mean + (sample - mean) * SHARE).max(1e-3)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
