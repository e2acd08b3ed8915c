// SPDX-License-Identifier: Apache-2.0
// What GNMR keeps of one unit, and the part of a step that needs no other unit.
// Source: arXiv 2606.00539, equations 3 and 4, algorithms 1 and 2; design section 5 for what the paper leaves open.
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/core/status.hpp"

namespace loft {

/// The numbers of the controller. Thresholds below 1 are legal: every unit at its mean is then a candidate, and the
/// budget decides.
struct gnmr_options {
  double alpha = 1.1;             ///< threshold of the ratio: > 0 and finite
  double alpha_warmup = 1.5;      ///< the same, for a unit's first `warmup_steps` steps
  std::int64_t warmup_steps = 0;  ///< >= 0
  double beta = 1.5;              ///< threshold of the jump: > 0 and finite
  int window = 5;                 ///< ratios that a jump looks back on: 1 to 16
  int max_active = 1;             ///< the budget: at most so many units on the safe path; >= 0
  int lock_steps = 1;             ///< steps that a unit stays a candidate after it triggered: >= 0
  std::int64_t safe_steps = 0;    ///< a unit's first steps, all on the safe path and outside the budget: >= 0
};

/// What the controller knows of one unit: plain data, all zero for a new unit. Its counters are for the reader.
struct gnmr_unit {
  static constexpr int ring_size = 16;

  double mean = 0;              ///< of the earlier norms, as the history says
  double older = 0;             ///< what the history `windowed` keeps beside it
  double risk = 0;              ///< R of the last step; infinite for a norm that was not finite
  std::int64_t steps = 0;       ///< all steps
  std::int64_t count = 0;       ///< norms in the history
  std::uint32_t triggered = 0;  ///< steps with R > 1
  std::uint32_t activated = 0;  ///< steps on the safe path
  std::uint32_t evicted = 0;    ///< steps that took it off the safe path
  std::uint32_t nonfinite = 0;  ///< steps whose norm was not finite
  std::int32_t lock = 0;        ///< steps for which it stays a candidate
  std::uint8_t next = 0;        ///< where the ring takes its next ratio
  std::uint8_t filled = 0;      ///< ratios in the ring
  bool active = false;          ///< on the safe path
  std::uint8_t reserved = 0;    ///< 0
  double ring[ring_size] = {};  ///< the last `window` ratios; with a full ring, ring[next] is the oldest
};
static_assert(sizeof(gnmr_unit) == 192);

// A history says what the mean of the earlier norms is. reference(unit) is the mean with which the next norm is
// compared, for a unit with count > 0. add(unit, norm) takes in a norm, which `count` includes already.

/// The arithmetic mean of all earlier norms, as published.
struct arithmetic_mean {
  static constexpr std::uint64_t id = 1;
  LOFT_HOST_DEVICE constexpr status check() const noexcept { return status::ok; }
  LOFT_HOST_DEVICE constexpr std::uint64_t parameter() const noexcept { return 0; }
  LOFT_HOST_DEVICE constexpr double reference(gnmr_unit const& u) const noexcept { return u.mean; }
  LOFT_HOST_DEVICE constexpr void add(gnmr_unit& u, double norm) const noexcept {
    u.mean = exact::sum(u.mean, exact::quotient(exact::difference(norm, u.mean), static_cast<double>(u.count)));
  }
};

/// The first norm, then mean += rate * (norm - mean), which forgets what is much older than 1 / rate steps. 0 < rate <=
/// 1.
struct exponential {
  double rate = 0.01;

  static constexpr std::uint64_t id = 2;
  LOFT_HOST_DEVICE constexpr status check() const noexcept {
    return rate > 0 && rate <= 1 && bit_cast<std::uint64_t>(rate) < detail::double_infinity_bits
               ? status::ok
               : status::invalid_history;
  }
  LOFT_HOST_DEVICE constexpr std::uint64_t parameter() const noexcept { return bit_cast<std::uint64_t>(rate); }
  LOFT_HOST_DEVICE constexpr double reference(gnmr_unit const& u) const noexcept { return u.mean; }
  LOFT_HOST_DEVICE constexpr void add(gnmr_unit& u, double norm) const noexcept {
    u.mean = u.count == 1 ? norm : exact::sum(u.mean, exact::product(rate, exact::difference(norm, u.mean)));
  }
};

/// The arithmetic mean of the last full window of `length` norms and of the window that is being filled, together
/// `length` to 2 * length - 1 norms; of all norms as long as there are fewer than `length`. length >= 1.
struct windowed {
  std::int64_t length = 100;

  static constexpr std::uint64_t id = 3;
  LOFT_HOST_DEVICE constexpr status check() const noexcept {
    return length >= 1 ? status::ok : status::invalid_history;
  }
  LOFT_HOST_DEVICE constexpr std::uint64_t parameter() const noexcept { return static_cast<std::uint64_t>(length); }
  LOFT_HOST_DEVICE constexpr double reference(gnmr_unit const& u) const noexcept {
    std::int64_t const newer = u.count % length;
    if (u.count < length) return u.mean;
    if (newer == 0) return u.older;
    double const full = static_cast<double>(length), part = static_cast<double>(newer);
    return exact::quotient(exact::sum(exact::product(u.older, full), exact::product(u.mean, part)),
                           exact::sum(full, part));
  }
  LOFT_HOST_DEVICE constexpr void add(gnmr_unit& u, double norm) const noexcept {
    double const place = static_cast<double>((u.count - 1) % length + 1);  // of this norm in its window
    if (place == 1) u.mean = 0;
    u.mean = exact::sum(u.mean, exact::quotient(exact::difference(norm, u.mean), place));
    if (u.count % length == 0) u.older = u.mean;
  }
};

// A signal says what risk a unit has, given ratio / alpha and jump / beta.

/// R = max(ratio / alpha, jump / beta), as published.
struct ratio_and_jump {
  static constexpr std::uint64_t id = 1;
  LOFT_HOST_DEVICE static constexpr double risk(double ratio, double jump) noexcept { return detail::max(ratio, jump); }
};

/// R = ratio / alpha: the paper's runs in which beta is not used.
struct ratio_alone {
  static constexpr std::uint64_t id = 2;
  LOFT_HOST_DEVICE static constexpr double risk(double ratio, double) noexcept { return ratio; }
};

namespace detail {

LOFT_HOST_DEVICE constexpr bool is_positive(double x) noexcept {
  std::uint64_t const bits = bit_cast<std::uint64_t>(x);
  return bits != 0 && bits < double_infinity_bits;
}

LOFT_HOST_DEVICE constexpr status check_options(gnmr_options const& o) noexcept {
  if (!is_positive(o.alpha) || !is_positive(o.alpha_warmup)) return status::invalid_alpha;
  if (!is_positive(o.beta)) return status::invalid_beta;
  if (o.window < 1 || o.window > gnmr_unit::ring_size) return status::invalid_window;
  if (o.max_active < 0) return status::invalid_budget;
  if (o.lock_steps < 0) return status::invalid_lock;
  if (o.warmup_steps < 0 || o.safe_steps < 0) return status::invalid_warmup;
  return status::ok;
}

/// Risks as integers in the same order: a risk is never negative and never NaN, so that its bits are in order.
LOFT_HOST_DEVICE constexpr std::uint64_t risk_key(double risk) noexcept { return bit_cast<std::uint64_t>(risk); }
inline constexpr std::uint64_t trigger_key = 0x3ff0'0000'0000'0000u;  // of R = 1

/// A risk that a user gave: NaN is infinite, what is below 0 is 0.
LOFT_HOST_DEVICE constexpr double user_risk(double risk) noexcept {
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  std::uint64_t const bits = bit_cast<std::uint64_t>(risk);
  if ((bits & ~sign) > double_infinity_bits) return bit_cast<double>(double_infinity_bits);
  return (bits & sign) != 0 ? 0.0 : risk;
}

/// numerator / denominator where both are finite; what no double holds is the largest one.
LOFT_HOST_DEVICE constexpr double finite_quotient(double numerator, double denominator) noexcept {
  double const q = exact::quotient(numerator, denominator);
  return bit_cast<std::uint64_t>(q) < double_infinity_bits ? q : bit_cast<double>(double_infinity_bits - 1);
}

/// Where the ring takes its next ratio. A unit from a controller with a longer window starts the ring anew.
LOFT_HOST_DEVICE constexpr int ring_place(gnmr_unit const& u, int window) noexcept {
  return u.next < window ? u.next : 0;
}

/// The ratio over the mean of the ring, summed from the oldest on; 1 until the ring is full or while its mean is 0.
LOFT_HOST_DEVICE constexpr double jump_of(gnmr_unit const& u, double ratio, int window) noexcept {
  if (u.filled < window) return 1;
  double sum = 0;
  int const oldest = ring_place(u, window);
  for (int i = oldest; i < window; ++i) sum = exact::sum(sum, u.ring[i]);
  for (int i = 0; i < oldest; ++i) sum = exact::sum(sum, u.ring[i]);
  double const mean = exact::quotient(sum, static_cast<double>(window));
  return bit_cast<std::uint64_t>(mean) == 0 ? 1.0 : finite_quotient(ratio, mean);
}

/// The first half of a unit's step: computes its risk from its norm and the user's risk, then adds the norm to its
/// history. A norm that is NaN, infinite or negative is infinite risk, and is added to nothing.
template <class History, class Signals>
LOFT_HOST_DEVICE constexpr void observe(gnmr_unit& u, double norm, double users, gnmr_options const& o, History history,
                                        Signals signals) noexcept {
  ++u.steps;
  norm = exact::sum(norm, 0.0);  // -0 is 0, and so is a subnormal where the build flushes those
  std::uint64_t const bits = bit_cast<std::uint64_t>(norm);
  if (bits >= double_infinity_bits) {
    ++u.nonfinite, ++u.triggered;
    u.risk = bit_cast<double>(double_infinity_bits);
    return;
  }
  double const reference = u.count == 0 ? 0.0 : history.reference(u);
  double const ratio = bit_cast<std::uint64_t>(reference) == 0 ? 1.0 : finite_quotient(norm, reference);
  double const jump = jump_of(u, ratio, o.window);
  double const alpha = u.steps <= o.warmup_steps ? o.alpha_warmup : o.alpha;
  u.risk = max(signals.risk(finite_quotient(ratio, alpha), finite_quotient(jump, o.beta)), user_risk(users));
  u.triggered += risk_key(u.risk) > trigger_key ? 1 : 0;
  if (u.count == 0 && bits == 0) return;  // still asleep
  ++u.count;
  history.add(u, norm);
  int const place = ring_place(u, o.window);
  u.ring[place] = ratio;
  u.next = static_cast<std::uint8_t>(place + 1 == o.window ? 0 : place + 1);
  u.filled = static_cast<std::uint8_t>(min(u.filled + 1, o.window));
}

LOFT_HOST_DEVICE constexpr bool is_triggered(gnmr_unit const& u) noexcept { return risk_key(u.risk) > trigger_key; }

/// Whether the unit is in its first steps, which are all on the safe path.
LOFT_HOST_DEVICE constexpr bool is_new(gnmr_unit const& u, gnmr_options const& o) noexcept {
  return u.steps <= o.safe_steps;
}

/// Whether the unit competes for a place on the safe path, after `observe`.
LOFT_HOST_DEVICE constexpr bool is_candidate(gnmr_unit const& u, gnmr_options const& o) noexcept {
  return !is_new(u, o) && (is_triggered(u) || u.lock > 0);
}

/// The second half of a unit's step: its path and its lock. A unit that leaves the safe path loses its lock.
LOFT_HOST_DEVICE constexpr void take_path(gnmr_unit& u, bool active, gnmr_options const& o) noexcept {
  u.evicted += u.active && !active ? 1 : 0;
  u.activated += active ? 1 : 0;
  u.active = active;
  if (!active || is_new(u, o)) u.lock = 0;
  else if (is_triggered(u)) u.lock = o.lock_steps;
  else u.lock = max(u.lock - 1, 0);
}

}  // namespace detail
}  // namespace loft
