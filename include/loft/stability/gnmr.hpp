// SPDX-License-Identifier: Apache-2.0
// GNMR, the stability controller. It compares the gradient norm of each unit with the unit's own history, and moves the
// few worst units to the safe path, never more than a budget.
// Source: arXiv 2606.00539, algorithms 1 and 2; design section 5 for ties, non-finite norms, ranks and restarts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/core/status.hpp"
#include "loft/stability/gnmr_state.hpp"
#include "loft/stability/gnmr_unit.hpp"
#include "loft/stability/norm.hpp"

namespace loft {

/// What a step did. Where `outcome` is not ok, nothing was changed and the other members are 0.
struct gnmr_report {
  status outcome = status::ok;
  int triggered = 0;        ///< units with R > 1
  int active = 0;           ///< units on the safe path now; those in their first `safe_steps` steps are among them
  int evicted = 0;          ///< on the safe path before, and not now
  int nonfinite = 0;        ///< units whose norm was not finite
  bool budget_hit = false;  ///< more candidates than max_active
};

/// The two ways in which a trainer can compute a unit.
enum class gnmr_path { low_cost, safe };

namespace detail {

/// Which candidates get a place on the safe path: those whose key is above `key`, and of those at `key` the first
/// `ties`.
struct gnmr_bound {
  std::uint64_t key = 0;
  std::int64_t ties = 0;

  /// Whether the next candidate gets a place. It is called for every candidate, in unit order.
  LOFT_HOST_DEVICE constexpr bool has_place(std::uint64_t risk) noexcept {
    return risk > key || (risk == key && ties-- > 0);
  }
};

/// Finds the `budget` largest of the candidates' keys by their digits, the highest first, without memory of its own:
/// while not found, count digit(key) over the candidates that `counts` accepts, and narrow.
struct gnmr_search {
  static constexpr int digits = 256;

  gnmr_bound bound{};
  bool found = true;
  std::int64_t wanted = 0;
  std::uint64_t prefix = 0;
  int shift = 0;

  /// in: any candidate's key; the bits in which the candidates' keys differ from it; how many candidates.
  LOFT_HOST_DEVICE constexpr gnmr_search(std::uint64_t any, std::uint64_t differing, std::int64_t candidates,
                                         std::int64_t budget) noexcept {
    if (budget == 0) bound = {~std::uint64_t{0}, 0};
    else if (candidates <= budget) bound = {0, candidates};
    else if (differing == 0) bound = {any, budget};
    else {
      found = false;
      wanted = budget;
      for (shift = 56; differing >> shift == 0;) shift -= 8;
      prefix = any >> shift >> 8;
    }
  }
  LOFT_HOST_DEVICE constexpr bool counts(std::uint64_t key) const noexcept { return key >> shift >> 8 == prefix; }
  LOFT_HOST_DEVICE constexpr int digit(std::uint64_t key) const noexcept {
    return static_cast<int>(key >> shift & (digits - 1));
  }
  LOFT_HOST_DEVICE constexpr void narrow(std::int32_t const (&histogram)[digits]) noexcept {
    int d = digits - 1;
    for (; histogram[d] < wanted; --d) wanted -= histogram[d];
    prefix = prefix << 8 | static_cast<std::uint64_t>(d);
    found = shift == 0 || histogram[d] == wanted;
    if (shift == 0) bound = {prefix, wanted};
    else if (found) bound = {(prefix << shift) - 1, 0};  // prefix > 0: below it are candidates without a place
    else shift -= 8;
  }
};

/// Whether an action is told of every unit and its path, rather than of the units on the safe path alone.
template <class Action> inline constexpr bool sees_every_unit = !std::is_invocable_v<Action&, int, double>;
template <class Action>
inline constexpr bool acts_without_throwing =
    sees_every_unit<Action> ? std::is_nothrow_invocable_v<Action&, int, double, gnmr_path>
                            : std::is_nothrow_invocable_v<Action&, int, double>;

/// Who gets a place in this step, found by one thread.
constexpr gnmr_bound find_bound(std::span<gnmr_unit const> units, gnmr_options const& o, gnmr_search search) noexcept {
  while (!search.found) {
    std::int32_t histogram[gnmr_search::digits] = {};
    for (gnmr_unit const& u : units) {
      std::uint64_t const key = risk_key(u.risk);
      if (search.counts(key) && is_candidate(u, o)) ++histogram[search.digit(key)];
    }
    search.narrow(histogram);
  }
  return search.bound;
}

}  // namespace detail

/// The controller. It holds its options alone. What it learns of a unit is kept in the gnmr_unit that the caller owns,
/// so that it can be copied to any rank, saved with the model, and used on a device.
///
/// All ranks that pass the same norms, already summed over ranks, take the same decisions, bit for bit. History: one of
/// arithmetic_mean, exponential and windowed. Signals: ratio_and_jump or ratio_alone. A step allocates nothing and
/// takes a time in proportion to the number of units. rounds: risks are computed in double, each operation rounded once
/// under any build flags; a norm below 2^-1022, which no tensor of floats has, counts as 0 in builds that flush
/// subnormals.
template <class History = arithmetic_mean, class Signals = ratio_and_jump> class gnmr {
 public:
  LOFT_HOST_DEVICE constexpr explicit gnmr(gnmr_options options, History history = {}, Signals signals = {}) noexcept
      : options_{options}, history_{history}, signals_{signals} {}

  LOFT_HOST_DEVICE constexpr gnmr_options const& options() const noexcept { return options_; }
  LOFT_HOST_DEVICE constexpr History const& history() const noexcept { return history_; }
  LOFT_HOST_DEVICE constexpr Signals const& signals() const noexcept { return signals_; }

  /// The first mistake in the options, or ok. While there is one, every other call returns it and changes nothing.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr status check() const noexcept {
    status const s = detail::check_options(options_);
    return s == status::ok ? history_.check() : s;
  }

  /// Takes one step of all units.
  ///
  /// in: the L2 norm of each whole unit, summed over ranks and shards. `act` is called in unit order, and takes either
  /// (unit, risk), then for each unit that is now on the safe path, or (unit, risk, gnmr_path), then for every unit;
  /// the unit is an int. out: the units, and the report. error: a norm that is NaN, infinite or negative is infinite
  /// risk.
  template <class Action>
  [[nodiscard]] constexpr gnmr_report step(std::span<gnmr_unit> units, std::span<double const> norms,
                                           Action&& act) const noexcept(detail::acts_without_throwing<Action>) {
    return step(units, norms, std::span<double const>{}, act);
  }
  /// Takes one step in which the user gives each unit a further risk, whose threshold is 1. R is the largest of all. A
  /// risk that is NaN is infinite; an empty span means that there are none.
  template <class Action>
  [[nodiscard]] constexpr gnmr_report step(std::span<gnmr_unit> units, std::span<double const> norms,
                                           std::span<double const> risks, Action&& act) const
      noexcept(detail::acts_without_throwing<Action>) {
    if (status const s = check(); s != status::ok) return {.outcome = s};
    if (norms.size() != units.size() || (!risks.empty() && risks.size() != units.size()))
      return {.outcome = status::norm_count_mismatch};
    if (units.size() > 0x7fff'ffffu) return {.outcome = status::too_many_units};
    gnmr_report report;
    std::uint64_t any = 0, differing = 0;
    std::int64_t candidates = 0;
    for (std::size_t i = 0; i < units.size(); ++i) {
      gnmr_unit& u = units[i];
      std::uint32_t const nonfinite = u.nonfinite;
      detail::observe(u, norms[i], risks.empty() ? 0.0 : risks[i], options_, history_, signals_);
      report.triggered += detail::is_triggered(u) ? 1 : 0;
      report.nonfinite += u.nonfinite != nonfinite ? 1 : 0;
      if (!detail::is_candidate(u, options_)) continue;
      std::uint64_t const key = detail::risk_key(u.risk);
      if (candidates++ == 0) any = key;
      differing |= key ^ any;
    }
    report.budget_hit = candidates > options_.max_active;
    decide(units, detail::find_bound(units, options_, {any, differing, candidates, options_.max_active}), report, act);
    return report;
  }

  /// The hash of options and policies, as saved states hold it.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr std::uint64_t hash() const noexcept {
    return detail::option_hash<History, Signals>(options_, history_);
  }
  /// Writes state_bytes(units.size()) bytes, with which any controller of the same options continues: all its later
  /// decisions are those that this one would take.
  [[nodiscard]] constexpr status save(std::span<gnmr_unit const> units, std::span<std::byte> out) const noexcept {
    if (status const s = check(); s != status::ok) return s;
    return detail::save_units(units, hash(), out);
  }
  /// Restores what `save` wrote; units beyond those of the state become new ones. Refused, without touching a unit: a
  /// state with more units than there is room for, of other options or a newer version, cut off, altered, or foreign.
  [[nodiscard]] constexpr status restore(std::span<std::byte const> in, std::span<gnmr_unit> units) const noexcept {
    if (status const s = check(); s != status::ok) return s;
    return detail::restore_units(in, hash(), options_, units);
  }
  /// How many units a saved state holds.
  [[nodiscard]] constexpr status units_in(std::span<std::byte const> in, std::int64_t& units) const noexcept {
    if (status const s = check(); s != status::ok) return s;
    return detail::read_header(in, hash(), units);
  }

 private:
  template <class Action>
  constexpr void decide(std::span<gnmr_unit> units, detail::gnmr_bound bound, gnmr_report& report, Action& act) const
      noexcept(detail::acts_without_throwing<Action>) {
    int index = 0;
    for (gnmr_unit& u : units) {
      bool const was_active = u.active;
      bool const active =
          detail::is_candidate(u, options_) ? bound.has_place(detail::risk_key(u.risk)) : detail::is_new(u, options_);
      detail::take_path(u, active, options_);
      report.active += active ? 1 : 0;
      report.evicted += was_active && !active ? 1 : 0;
      if constexpr (detail::sees_every_unit<Action>) act(index, u.risk, active ? gnmr_path::safe : gnmr_path::low_cost);
      else if (active) act(index, u.risk);
      ++index;
    }
  }

  gnmr_options options_;
  History history_;
  Signals signals_;
};

}  // namespace loft
