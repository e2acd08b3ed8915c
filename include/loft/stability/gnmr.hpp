// SPDX-License-Identifier: Apache-2.0
// GNMR, the stability controller: watches each unit's gradient norm against its own history and moves the few worst
// units to the safe path, never more than a budget.
// Source: arXiv 2606.00539, algorithms 1 and 2; design section 5 for ties, non-finite norms, ranks and restarts.
#ifndef LOFT_STABILITY_GNMR_HPP
#define LOFT_STABILITY_GNMR_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/core/config.hpp"
#include "loft/stability/gnmr_state.hpp"
#include "loft/stability/gnmr_unit.hpp"
#include "loft/stability/norm.hpp"
#include "loft/core/status.hpp"

namespace loft {

/// What a step did. An outcome other than ok: nothing was changed, and the other members are 0.
struct gnmr_report {
  status outcome = status::ok;
  int triggered = 0;        ///< units with R > 1
  int active = 0;           ///< units on the safe path now; those in their first `safe_steps` steps are among them
  int evicted = 0;          ///< on the safe path before, and not now
  int nonfinite = 0;        ///< units whose norm was not finite
  bool budget_hit = false;  ///< more candidates than max_active
};

/// The two ways that a trainer has for a unit.
enum class gnmr_path { low_cost, safe };

namespace detail {

/// The units that get a place: the candidates whose key is above `key`, and of those at `key` the first `ties`.
struct gnmr_bound {
  std::uint64_t key = 0;
  std::int64_t ties = 0;

  /// To be asked of the candidates in unit order.
  LOFT_HOST_DEVICE constexpr bool admits(std::uint64_t risk) noexcept {
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

/// The places of this step, chosen on one thread.
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

/// The controller. It holds its options only; what it knows of the units is theirs, so that it can be copied to any
/// rank, saved with the model, and stepped on a device.
///
/// Every rank that gives the same norms, summed over ranks before, takes the same decisions to the bit. Risks are
/// computed in double, each operation rounded once, whatever the build flags; only norms below 2^-1022, which no tensor
/// of floats has, count as 0 in builds that flush subnormals. History: arithmetic_mean, exponential, windowed. Signals:
/// ratio_and_jump, ratio_alone. A step allocates nothing and takes a time in proportion to the units.
template <class History = arithmetic_mean, class Signals = ratio_and_jump>
class gnmr {
 public:
  LOFT_HOST_DEVICE constexpr explicit gnmr(gnmr_options options, History history = {}, Signals signals = {}) noexcept
      : options_{options}, history_{history}, signals_{signals} {}

  LOFT_HOST_DEVICE constexpr gnmr_options const& options() const noexcept { return options_; }
  LOFT_HOST_DEVICE constexpr History const& history() const noexcept { return history_; }
  LOFT_HOST_DEVICE constexpr Signals const& signals() const noexcept { return signals_; }

  /// The first mistake in the options, or ok. With a mistake every call returns it and changes nothing.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr status check() const noexcept {
    status const s = detail::check_options(options_);
    return s == status::ok ? history_.check() : s;
  }

  /// One step of all units.
  ///
  /// in: one L2 norm a unit, of the whole unit (summed over ranks and shards). `act`: either act(unit, risk), called
  /// for each unit of the new active set, or act(unit, risk, gnmr_path), called for every unit; in unit order, the unit
  /// as int. out: the units, and the report. A norm that is NaN, infinite or negative is infinite risk.
  template <class Action>
  constexpr gnmr_report step(std::span<gnmr_unit> units, std::span<double const> norms, Action&& act) const noexcept {
    return run(
        units, norms, [](std::size_t) { return 0.0; }, act);
  }
  /// The same with a risk of the user's own for each unit, where 1 is its threshold: R is the largest of all. A risk
  /// that is NaN is infinite. An empty span: none.
  template <class Action>
  constexpr gnmr_report step(std::span<gnmr_unit> units, std::span<double const> norms, std::span<double const> risks,
                             Action&& act) const noexcept {
    if (risks.empty()) return step(units, norms, act);
    if (risks.size() != units.size()) return {.outcome = status::norm_count_mismatch};
    return run(
        units, norms, [&](std::size_t i) { return risks[i]; }, act);
  }

  /// The hash of options and policies, as saved states hold it.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr std::uint64_t hash() const noexcept {
    return detail::option_hash<History, Signals>(options_, history_);
  }
  /// Writes state_bytes(units.size()) bytes from which any controller with the same options goes on as if unbroken.
  [[nodiscard]] constexpr status save(std::span<gnmr_unit const> units, std::span<std::byte> out) const noexcept {
    if (status const s = check(); s != status::ok) return s;
    return detail::save_units(units, hash(), out);
  }
  /// Restores what `save` wrote. Units beyond those of the state are made new; a state with more units than there is
  /// room for, of other options, of a newer version, cut off, altered or foreign is refused, and no unit is touched.
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
  template <class Risks, class Action>
  constexpr gnmr_report run(std::span<gnmr_unit> units, std::span<double const> norms, Risks risk_of,
                            Action& act) const noexcept {
    if (status const s = check(); s != status::ok) return {.outcome = s};
    if (norms.size() != units.size()) return {.outcome = status::norm_count_mismatch};
    if (units.size() > 0x7fff'ffffu) return {.outcome = status::too_many_units};
    gnmr_report report;
    std::uint64_t any = 0, differing = 0;
    std::int64_t candidates = 0;
    for (std::size_t i = 0; i < units.size(); ++i) {
      gnmr_unit& u = units[i];
      std::uint32_t const nonfinite = u.nonfinite;
      detail::observe(u, norms[i], risk_of(i), options_, history_, signals_);
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

  template <class Action>
  constexpr void decide(std::span<gnmr_unit> units, detail::gnmr_bound bound, gnmr_report& report,
                        Action& act) const noexcept {
    int index = 0;
    for (gnmr_unit& u : units) {
      bool const was_active = u.active;
      bool const active =
          detail::is_candidate(u, options_) ? bound.admits(detail::risk_key(u.risk)) : detail::is_new(u, options_);
      detail::take_path(u, active, options_);
      report.active += active ? 1 : 0;
      report.evicted += was_active && !active ? 1 : 0;
      if constexpr (std::is_invocable_v<Action&, int, double>) {
        if (active) act(index, u.risk);
      } else {
        act(index, u.risk, active ? gnmr_path::safe : gnmr_path::low_cost);
      }
      ++index;
    }
  }

  gnmr_options options_;
  History history_;
  Signals signals_;
};

}  // namespace loft

#endif
