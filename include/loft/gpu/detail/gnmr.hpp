// SPDX-License-Identifier: Apache-2.0
// A step of GNMR on a GPU: units, norms and decisions stay in device memory, and nothing waits for the host. CUDA and
// HIP. Source: gnmr.hpp, whose functions of one unit these kernels call; design sections 5 and 6.
//
// One block of threads takes the step, in one launch. A thread has neighbouring units, so that what must
// happen in unit order, the choice among equal risks, is one prefix sum over threads.
#pragma once

#include <cstdint>

#include "loft/core/exact.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/native/gpu/lane_group.hpp"
#include "loft/stability/gnmr.hpp"

namespace loft::gpu {

/// What a step works on: all of it device memory of the caller. Norm: double, or norm_partial where the partials of all
/// ranks and shards have been added up already.
template <class Norm> struct gnmr_memory {
  gnmr_unit* units = nullptr;
  std::int64_t count = 0;
  Norm const* norms = nullptr;     ///< one a unit
  double const* risks = nullptr;   ///< a risk of the user's own for each unit, or nothing
  gnmr_report* report = nullptr;   ///< what the step did, or nothing
  std::uint8_t* active = nullptr;  ///< for each unit: 1 on the safe path, else 0; or nothing
};

/// The block of threads. Lanes exchange words with neighbours in groups of 32, also where a wave has 64.
struct gnmr_tuning {
  static constexpr int threads = 1024, width = 32, groups = threads / width;
};

/// The units of one thread: from `first` on, before `end`.
struct gnmr_range {
  std::int64_t first, end;
};

LOFT_HOST_DEVICE inline gnmr_range range_of_thread(std::int64_t count) noexcept {
  std::int64_t const each = detail::ceil_div(count, std::int64_t{gnmr_tuning::threads});
  std::int64_t const first = detail::min(each * thread_index(), count);
  return {first, detail::min(first + each, count)};
}

using gnmr_group = lane_group<gnmr_tuning::width>;

/// The words of a group of lanes, combined. The order of the words must not matter to `combine`.
template <class Combine>
LOFT_HOST_DEVICE inline std::uint64_t over_group(std::uint64_t word, Combine combine) noexcept {
  for (int mask = 1; mask < gnmr_tuning::width; mask *= 2)
    word = combine(word, detail::exchange(word, mask, gnmr_group{}));
  return word;
}

/// The words of all threads, combined; every thread gets the result.
template <class Combine>
LOFT_HOST_DEVICE inline std::uint64_t over_block(std::uint64_t word, std::uint64_t* shared, Combine combine) noexcept {
  static_assert(gnmr_tuning::groups == gnmr_tuning::width, "a group of lanes combines the words of all groups");
  word = over_group(word, combine);
  if (thread_index() % gnmr_tuning::width == 0) shared[thread_index() / gnmr_tuning::width] = word;
  sync_threads();
  word = over_group(shared[thread_index() % gnmr_tuning::width], combine);
  sync_threads();
  return word;
}

/// The sum of the words of the threads before this one.
LOFT_HOST_DEVICE inline std::uint64_t sum_before(std::uint64_t word, std::uint64_t* shared) noexcept {
  std::uint64_t before = 0;
  for (int mask = 1; mask < gnmr_tuning::width; mask *= 2) {  // `word`: the sum of the `mask` lanes that this one is in
    std::uint64_t const neighbours = detail::exchange(word, mask, gnmr_group{});
    if ((thread_index() & mask) != 0) before += neighbours;
    word += neighbours;
  }
  if (thread_index() % gnmr_tuning::width == 0) shared[thread_index() / gnmr_tuning::width] = word;
  sync_threads();
  for (int i = 0; i < thread_index() / gnmr_tuning::width; ++i) before += shared[i];
  sync_threads();
  return before;
}

LOFT_HOST_DEVICE inline double norm_in(double norm) noexcept { return norm; }
LOFT_HOST_DEVICE inline double norm_in(norm_partial const& partial) noexcept { return norm_of(partial); }

/// What the first half of a step found. The keys of the candidates: bits that some have, bits that all have.
struct gnmr_seen {
  std::uint64_t some = 0, all = ~std::uint64_t{0};
  std::uint32_t candidates = 0, triggered = 0, nonfinite = 0;
};

/// The first half of the step of a thread's units, and what all threads found.
template <class Controller, class Norm>
LOFT_HOST_DEVICE inline gnmr_seen observe_units(Controller const& controller, gnmr_memory<Norm> const& m,
                                                gnmr_range range, std::uint64_t* shared) noexcept {
  gnmr_seen seen;
  for (std::int64_t i = range.first; i < range.end; ++i) {
    gnmr_unit& u = m.units[i];
    std::uint32_t const nonfinite = u.nonfinite;
    double const risk = m.risks != nullptr ? m.risks[i] : 0.0;
    detail::observe(u, norm_in(m.norms[i]), risk, controller.options(), controller.history(), controller.signals());
    seen.triggered += detail::is_triggered(u) ? 1u : 0u;
    seen.nonfinite += u.nonfinite != nonfinite ? 1u : 0u;
    if (!detail::is_candidate(u, controller.options())) continue;
    ++seen.candidates;
    seen.some |= detail::risk_key(u.risk);
    seen.all &= detail::risk_key(u.risk);
  }
  auto const add = [](std::uint64_t a, std::uint64_t b) { return a + b; };
  std::uint64_t const two = over_block(detail::two_words(seen.triggered, seen.nonfinite), shared, add);
  seen.triggered = static_cast<std::uint32_t>(two);
  seen.nonfinite = static_cast<std::uint32_t>(two >> 32);
  seen.candidates = static_cast<std::uint32_t>(over_block(seen.candidates, shared, add));
  seen.some = over_block(seen.some, shared, [](std::uint64_t a, std::uint64_t b) { return a | b; });
  seen.all = over_block(seen.all, shared, [](std::uint64_t a, std::uint64_t b) { return a & b; });
  return seen;
}

/// The places of this step. All threads take the same turns, each with a search of its own over one histogram.
LOFT_HOST_DEVICE inline detail::gnmr_bound bound_of_block(
    gnmr_unit const* units, gnmr_range range, gnmr_options const& o, detail::gnmr_search search,
    std::int32_t (&histogram)[detail::gnmr_search::digits]) noexcept {
  while (!search.found) {
    for (int d = thread_index(); d < detail::gnmr_search::digits; d += gnmr_tuning::threads) histogram[d] = 0;
    sync_threads();
    for (std::int64_t i = range.first; i < range.end; ++i) {
      std::uint64_t const key = detail::risk_key(units[i].risk);
      if (search.counts(key) && detail::is_candidate(units[i], o))
        atomic_add(reinterpret_cast<std::uint32_t*>(histogram + search.digit(key)), 1u);
    }
    sync_threads();
    search.narrow(histogram);
    sync_threads();
  }
  return search.bound;
}

/// The second half of the step of a thread's units; gives the active ones and, above 32 bits, the evicted ones.
template <class Norm>
LOFT_HOST_DEVICE inline std::uint64_t decide_units(gnmr_memory<Norm> const& m, gnmr_range range, gnmr_options const& o,
                                                   detail::gnmr_bound bound, std::uint64_t* shared) noexcept {
  std::uint32_t ties = 0, now = 0, evicted = 0;
  for (std::int64_t i = range.first; i < range.end; ++i) {
    gnmr_unit const& u = m.units[i];
    ties += detail::risk_key(u.risk) == bound.key && detail::is_candidate(u, o) ? 1u : 0u;
  }
  bound.ties -= static_cast<std::int64_t>(sum_before(ties, shared));
  for (std::int64_t i = range.first; i < range.end; ++i) {
    gnmr_unit& u = m.units[i];
    bool const was_active = u.active;
    bool const active = detail::is_candidate(u, o) ? bound.has_place(detail::risk_key(u.risk)) : detail::is_new(u, o);
    detail::take_path(u, active, o);
    now += active ? 1u : 0u;
    evicted += was_active && !active ? 1u : 0u;
    if (m.active != nullptr) m.active[i] = active ? 1 : 0;
  }
  return over_block(detail::two_words(now, evicted), shared, [](std::uint64_t a, std::uint64_t b) { return a + b; });
}

template <class Controller, class Norm>
__global__ void __launch_bounds__(gnmr_tuning::threads, blocks_held(1))
    step_units(Controller const controller, gnmr_memory<Norm> const m) {
  __shared__ std::uint64_t shared[gnmr_tuning::groups];
  __shared__ std::int32_t histogram[detail::gnmr_search::digits];
  gnmr_options const& o = controller.options();
  gnmr_range const range = range_of_thread(m.count);
  gnmr_seen const seen = observe_units(controller, m, range, shared);
  detail::gnmr_search const search{seen.some, seen.some ^ seen.all, seen.candidates, o.max_active};
  detail::gnmr_bound const bound = bound_of_block(m.units, range, o, search, histogram);
  std::uint64_t const paths = decide_units(m, range, o, bound, shared);
  if (thread_index() != 0 || m.report == nullptr) return;
  gnmr_report report;
  report.triggered = static_cast<int>(seen.triggered);
  report.active = static_cast<int>(static_cast<std::uint32_t>(paths));
  report.evicted = static_cast<int>(paths >> 32);
  report.nonfinite = static_cast<int>(seen.nonfinite);
  report.budget_hit = seen.candidates > static_cast<std::uint32_t>(o.max_active);
  *m.report = report;
}

}  // namespace loft::gpu
