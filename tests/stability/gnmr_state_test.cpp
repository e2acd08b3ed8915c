// SPDX-License-Identifier: Apache-2.0
// The saved state of the GNMR controller: resuming from every step, every way to be refused, hashes, frozen results.
#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "gnmr_frozen.hpp"
#include "gnmr_reference.hpp"

namespace {

using loft::gnmr, loft::gnmr_options, loft::gnmr_unit, loft::state_hash, loft::status;
using units = std::vector<gnmr_unit>;
using doubles = std::vector<double>;
using bytes = std::vector<std::byte>;

constexpr auto ignore = [](int, double) {};
constexpr gnmr_options usual{.alpha_warmup = 2, .warmup_steps = 6, .window = 4, .max_active = 2, .lock_steps = 3};

// Norms of one step, NaN and infinity among them; they depend on the step alone.
doubles norms_at(std::size_t step, std::size_t count) {
  std::mt19937_64 random{step};
  doubles norms;
  for (std::size_t i = 0; i < count; ++i) norms.push_back(test::norm_of_kind("broken", i, step, random));
  return norms;
}

template <class Controller> units after(Controller const& c, std::size_t steps, std::size_t count = 6) {
  units u(count);
  for (std::size_t t = 0; t < steps; ++t) (void)c.step(u, norms_at(t, count), ignore);
  return u;
}

template <class Controller> bytes saved(Controller const& c, units const& u) {
  bytes out(static_cast<std::size_t>(loft::state_bytes(static_cast<std::int64_t>(u.size()))));
  REQUIRE(c.save(u, out) == status::ok);
  return out;
}

// Units that no step leaves behind: what a restore must not touch, or must overwrite.
units poisoned(std::size_t count) {
  gnmr_unit u;
  u.mean = -7, u.lock = -7, u.next = 77, u.ring[3] = -7;
  return units(count, u);
}

void check_refused(gnmr<> const& c, bytes const& state, status why, std::size_t room = 6) {
  units u = poisoned(room);
  CHECK(c.restore(state, u) == why);
  CHECK(state_hash(u) == state_hash(poisoned(room)));
}

}  // namespace

TEST_CASE_TEMPLATE("a run resumed at any step is the unbroken one", History, loft::arithmetic_mean, loft::exponential,
                   loft::windowed) {
  gnmr<History> c{usual};
  if constexpr (std::is_same_v<History, loft::windowed>) c = gnmr<History>{usual, {5}};
  std::size_t const steps = 40;
  units const unbroken = after(c, steps);
  for (std::size_t t = 0; t <= steps; ++t) {
    CAPTURE(t);
    bytes const state = saved(c, after(c, t));
    units u = poisoned(6);
    REQUIRE(c.restore(state, u) == status::ok);
    for (std::size_t k = t; k < steps; ++k) (void)c.step(u, norms_at(k, 6), ignore);
    CHECK(state_hash(u) == state_hash(unbroken));
  }
}

TEST_CASE("units beyond those of the state are new; fewer are refused") {
  gnmr<> const c{usual};
  units const six = after(c, 20);
  units u = poisoned(9);
  REQUIRE(c.restore(saved(c, six), u) == status::ok);
  units expected = six;
  expected.resize(9);
  CHECK(state_hash(u) == state_hash(expected));
  check_refused(c, saved(c, six), status::buffer_too_small, 5);

  std::int64_t count = -7;
  CHECK(c.units_in(saved(c, six), count) == status::ok);
  CHECK(count == 6);
  CHECK(c.units_in({}, count) == status::truncated_state);
  CHECK(count == 6);

  bytes none = saved(c, {});
  CHECK(none.size() == 40);
  CHECK(c.restore(none, {}) == status::ok);
  bytes small(static_cast<std::size_t>(loft::state_bytes(6)) - 1, std::byte{0xa5});
  CHECK(c.save(six, small) == status::buffer_too_small);
  CHECK(small == bytes(small.size(), std::byte{0xa5}));
}

TEST_CASE("foreign, truncated, newer and altered states are refused") {
  gnmr<> const c{usual};
  bytes const good = saved(c, after(c, 30));
  for (std::size_t length = 0; length < good.size(); ++length) {
    CAPTURE(length);
    check_refused(c, bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)), status::truncated_state);
  }
  bytes const text(good.size(), std::byte{'x'});
  check_refused(c, text, status::foreign_state);
  check_refused(c, bytes(3, std::byte{'x'}), status::foreign_state);

  bytes newer = good;
  newer[8] = std::byte{2};
  check_refused(c, newer, status::newer_state);

  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {  // any bit
    bytes altered = good;
    altered[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    units u = poisoned(6);
    status const why = c.restore(altered, u);
    status const expected = bit < 64    ? status::foreign_state
                            : bit == 64 ? status::corrupt_state  // version 0
                            : bit < 128 ? status::newer_state
                            : bit < 192 ? status::option_mismatch
                                        : why;
    if (why != expected || why == status::ok || state_hash(u) != state_hash(poisoned(6))) {
      CAPTURE(bit);
      FAIL_CHECK("an altered state was taken, or the wrong status given: ", loft::message(why));
    }
  }
  bytes longer = good;
  longer.resize(good.size() + 100, std::byte{1});  // a checkpoint's buffer may be larger
  units u = poisoned(6);
  CHECK(c.restore(longer, u) == status::ok);
}

TEST_CASE("a state is for the options and the policies that saved it") {
  bytes const good = saved(gnmr<>{usual}, after(gnmr<>{usual}, 30));
  auto const changed = [](auto change) {
    gnmr_options o = usual;
    change(o);
    return gnmr<>{o};
  };
  gnmr<> const others[] = {
      changed([](gnmr_options& o) { o.alpha = 1.2; }),      changed([](gnmr_options& o) { o.alpha_warmup = 1.2; }),
      changed([](gnmr_options& o) { o.warmup_steps = 7; }), changed([](gnmr_options& o) { o.beta = 1.2; }),
      changed([](gnmr_options& o) { o.window = 5; }),       changed([](gnmr_options& o) { o.max_active = 3; }),
      changed([](gnmr_options& o) { o.lock_steps = 4; }),   changed([](gnmr_options& o) { o.safe_steps = 1; })};
  for (gnmr<> const& other : others) check_refused(other, good, status::option_mismatch);
  units u = poisoned(6);
  CHECK(gnmr<loft::exponential>{usual}.restore(good, u) == status::option_mismatch);
  CHECK(gnmr<loft::windowed>{usual}.restore(good, u) == status::option_mismatch);
  CHECK(gnmr<loft::arithmetic_mean, loft::ratio_alone>{usual}.restore(good, u) == status::option_mismatch);
  CHECK(gnmr<loft::exponential>{usual, {0.1}}.hash() != gnmr<loft::exponential>{usual, {0.2}}.hash());
  CHECK(state_hash(u) == state_hash(poisoned(6)));
  CHECK(gnmr<>{usual}.restore(good, u) == status::ok);
}

TEST_CASE("units that no step leaves behind are refused, though the hash fits") {
  gnmr<> const c{usual};
  units const good = after(c, 30);
  auto const refused = [&](auto change) {
    units u = good;
    change(u[4]);
    check_refused(c, saved(c, u), status::corrupt_state);
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  refused([](gnmr_unit& u) { u.mean = nan; });
  refused([](gnmr_unit& u) { u.steps = std::numeric_limits<decltype(u.steps)>::max(); });  // no step could be counted
  refused([](gnmr_unit& u) { u.mean = -1; });
  refused([](gnmr_unit& u) { u.older = infinite; });
  refused([](gnmr_unit& u) { u.risk = nan; });
  refused([](gnmr_unit& u) { u.ring[15] = nan; });
  refused([](gnmr_unit& u) { u.count = u.steps + 1; });
  refused([](gnmr_unit& u) { u.count = -1; });
  refused([](gnmr_unit& u) { u.lock = 4; });
  refused([](gnmr_unit& u) { u.lock = -1; });
  refused([](gnmr_unit& u) { u.next = 4; });
  refused([](gnmr_unit& u) { u.filled = 5; });
  refused([](gnmr_unit& u) { u.reserved = 1; });
}

TEST_CASE("the hash depends on every member, on the order and on the number of units") {
  units const base = after(gnmr<>{usual}, 30);
  std::vector<std::uint64_t> hashes{state_hash(base)};
  auto const with = [&](auto change) {
    units u = base;
    change(u[2]);
    hashes.push_back(state_hash(u));
  };
  with([](gnmr_unit& u) { u.mean += 1; });
  with([](gnmr_unit& u) { u.older += 1; });
  with([](gnmr_unit& u) { u.risk = 77; });
  with([](gnmr_unit& u) { ++u.steps; });
  with([](gnmr_unit& u) { ++u.count; });
  with([](gnmr_unit& u) { ++u.triggered; });
  with([](gnmr_unit& u) { ++u.activated; });
  with([](gnmr_unit& u) { ++u.evicted; });
  with([](gnmr_unit& u) { ++u.nonfinite; });
  with([](gnmr_unit& u) { ++u.lock; });
  with([](gnmr_unit& u) { ++u.next; });
  with([](gnmr_unit& u) { ++u.filled; });
  with([](gnmr_unit& u) { u.active = !u.active; });
  with([](gnmr_unit& u) { ++u.reserved; });
  for (std::size_t i = 0; i < 16; ++i) with([&](gnmr_unit& u) { u.ring[i] += 1; });
  units swapped = base;
  std::swap(swapped[0], swapped[1]);
  hashes.push_back(state_hash(swapped));
  units more = base;
  more.resize(7);
  hashes.push_back(state_hash(more));
  std::sort(hashes.begin(), hashes.end());
  CHECK(std::unique(hashes.begin(), hashes.end()) == hashes.end());
  CHECK(state_hash(base) == state_hash(after(gnmr<>{usual}, 30)));
}

TEST_CASE("the bytes of a state are frozen") {
  bytes const state = saved(gnmr<>{usual}, after(gnmr<>{usual}, 3, 2));
  CHECK(std::memcmp(state.data(), "LOFTGNMR\1\0\0\0\0\0\0\0", 16) == 0);
  CHECK(state.size() == 40 + 2 * 192);
  CHECK(std::to_integer<int>(state[24]) == 2);       // units
  CHECK(std::to_integer<int>(state[40 + 24]) == 3);  // steps of the first unit
}

TEST_CASE("norms and decisions are frozen") {
  CHECK(test::hash_of_norms() == test::frozen_norms);
  CHECK(test::hash_of_steps() == test::frozen_steps);
}
