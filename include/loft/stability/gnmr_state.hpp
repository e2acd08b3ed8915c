// SPDX-License-Identifier: Apache-2.0
// The state of the GNMR controller as words: its hash, and the bytes that a checkpoint keeps.
// Source: design section 5. The bytes are little-endian words of 64 bits on every machine:
//   magic, version, hash of the options and policies, number of units, hash of the units, then 24 words a unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "loft/core/bits.hpp"
#include "loft/core/status.hpp"
#include "loft/stability/gnmr_unit.hpp"

namespace loft {
namespace detail {

inline constexpr std::uint64_t state_magic = 0x524d'4e47'5446'4f4cu;  // "LOFTGNMR"
inline constexpr std::uint64_t state_version = 1;
inline constexpr int state_header_words = 5, unit_words = 24;

/// A unit as words, which hold all of it.
struct unit_state {
  std::uint64_t words[unit_words];
};

LOFT_HOST_DEVICE constexpr std::uint64_t two_words(std::uint32_t low, std::uint32_t high) noexcept {
  return std::uint64_t{high} << 32 | low;
}

LOFT_HOST_DEVICE constexpr unit_state state_of(gnmr_unit const& u) noexcept {
  unit_state s{{bit_cast<std::uint64_t>(u.mean), bit_cast<std::uint64_t>(u.older), bit_cast<std::uint64_t>(u.risk),
                static_cast<std::uint64_t>(u.steps), static_cast<std::uint64_t>(u.count),
                two_words(u.triggered, u.activated), two_words(u.evicted, u.nonfinite),
                two_words(static_cast<std::uint32_t>(u.lock), u.next | std::uint32_t{u.filled} << 8 |
                                                                  (u.active ? 0x1'0000u : 0u) |
                                                                  std::uint32_t{u.reserved} << 24)}};
  for (int i = 0; i < gnmr_unit::ring_size; ++i) s.words[8 + i] = bit_cast<std::uint64_t>(u.ring[i]);
  return s;
}

LOFT_HOST_DEVICE constexpr gnmr_unit unit_of(unit_state const& s) noexcept {
  auto const low = [&](int i) { return static_cast<std::uint32_t>(s.words[i]); };
  auto const high = [&](int i) { return static_cast<std::uint32_t>(s.words[i] >> 32); };
  gnmr_unit u;
  u.mean = bit_cast<double>(s.words[0]), u.older = bit_cast<double>(s.words[1]), u.risk = bit_cast<double>(s.words[2]);
  u.steps = static_cast<std::int64_t>(s.words[3]), u.count = static_cast<std::int64_t>(s.words[4]);
  u.triggered = low(5), u.activated = high(5), u.evicted = low(6), u.nonfinite = high(6);
  u.lock = static_cast<std::int32_t>(low(7));
  u.next = static_cast<std::uint8_t>(high(7)), u.filled = static_cast<std::uint8_t>(high(7) >> 8);
  u.active = (high(7) >> 16 & 0xff) != 0, u.reserved = static_cast<std::uint8_t>(high(7) >> 24);
  for (int i = 0; i < gnmr_unit::ring_size; ++i) u.ring[i] = bit_cast<double>(s.words[8 + i]);
  return u;
}

/// Whether a unit is one that steps with these options can leave behind.
LOFT_HOST_DEVICE constexpr bool is_sound(gnmr_unit const& u, gnmr_options const& o) noexcept {
  auto const finite = [](double x) { return bit_cast<std::uint64_t>(x) < double_infinity_bits; };
  bool good = finite(u.mean) && finite(u.older) && bit_cast<std::uint64_t>(u.risk) <= double_infinity_bits;
  for (double const ratio : u.ring) good = good && finite(ratio);
  good = good && u.count >= 0 && u.steps >= u.count && u.steps >> 62 == 0 && u.reserved == 0;
  good = good && u.lock >= 0 && u.lock <= o.lock_steps;
  return good && u.filled <= o.window && u.next < o.window;
}

/// A permutation of words: the images of two words differ in about half of their bits.
LOFT_HOST_DEVICE constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  constexpr std::uint64_t odd = 0x9e37'79b9'7f4a'7c15u;  // 2^64 over the golden ratio
  for (int i = 0; i < 3; ++i) x = (x ^ x >> 32) * odd;
  return x ^ x >> 32;
}

template <std::size_t N> LOFT_HOST_DEVICE constexpr std::uint64_t hash_of(std::uint64_t const (&words)[N]) noexcept {
  std::uint64_t h = N;
  for (std::uint64_t const w : words) h = mix(h ^ w) + w;
  return h;
}

/// What a unit adds to the hash of all units, which is a sum so that units can be added in any order.
LOFT_HOST_DEVICE constexpr std::uint64_t unit_hash(gnmr_unit const& u, std::int64_t index) noexcept {
  return mix(hash_of(state_of(u).words) ^ mix(static_cast<std::uint64_t>(index) + 1));
}

template <class History, class Signals>
LOFT_HOST_DEVICE constexpr std::uint64_t option_hash(gnmr_options const& o, History const& history) noexcept {
  std::uint64_t const words[] = {bit_cast<std::uint64_t>(o.alpha),
                                 bit_cast<std::uint64_t>(o.alpha_warmup),
                                 static_cast<std::uint64_t>(o.warmup_steps),
                                 bit_cast<std::uint64_t>(o.beta),
                                 static_cast<std::uint64_t>(o.window),
                                 static_cast<std::uint64_t>(o.max_active),
                                 static_cast<std::uint64_t>(o.lock_steps),
                                 static_cast<std::uint64_t>(o.safe_steps),
                                 History::id,
                                 history.parameter(),
                                 Signals::id};
  return hash_of(words);
}

constexpr void store_word(std::span<std::byte> out, std::int64_t word, std::uint64_t value) noexcept {
  for (int i = 0; i < 8; ++i)
    out[static_cast<std::size_t>(word * 8 + i)] = static_cast<std::byte>(value >> (8 * i) & 0xff);
}

constexpr std::uint64_t load_word(std::span<std::byte const> in, std::int64_t word) noexcept {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i)
    value |= static_cast<std::uint64_t>(in[static_cast<std::size_t>(word * 8 + i)]) << (8 * i);
  return value;
}

constexpr unit_state load_unit(std::span<std::byte const> in, std::int64_t index) noexcept {
  unit_state s{};
  for (int w = 0; w < unit_words; ++w) s.words[w] = load_word(in, state_header_words + index * unit_words + w);
  return s;
}

}  // namespace detail

/// The hash of all units, the same on every rank that took the same steps. It depends on every bit of them.
[[nodiscard]] constexpr std::uint64_t state_hash(std::span<gnmr_unit const> units) noexcept {
  std::uint64_t hash = units.size();
  std::int64_t index = 0;
  for (gnmr_unit const& u : units) hash += detail::unit_hash(u, index++);
  return hash;
}

/// The bytes of a saved state of `units` units.
[[nodiscard]] LOFT_HOST_DEVICE constexpr std::int64_t state_bytes(std::int64_t units) noexcept {
  return 8 * (detail::state_header_words + units * detail::unit_words);
}

namespace detail {

constexpr status save_units(std::span<gnmr_unit const> units, std::uint64_t options,
                            std::span<std::byte> out) noexcept {
  auto const count = static_cast<std::int64_t>(units.size());
  if (static_cast<std::int64_t>(out.size()) < state_bytes(count)) return status::buffer_too_small;
  std::uint64_t const header[] = {state_magic, state_version, options, units.size(), state_hash(units)};
  for (int i = 0; i < state_header_words; ++i) store_word(out, i, header[i]);
  std::int64_t at = state_header_words;
  for (gnmr_unit const& u : units)
    for (std::uint64_t const word : state_of(u).words) store_word(out, at++, word);
  return status::ok;
}

/// Checks the header of a saved state, and reads how many units it holds.
constexpr status read_header(std::span<std::byte const> in, std::uint64_t options, std::int64_t& units) noexcept {
  auto const bytes = static_cast<std::int64_t>(in.size());
  for (int i = 0; i < 8 && i < bytes; ++i)
    if (in[static_cast<std::size_t>(i)] != static_cast<std::byte>(state_magic >> (8 * i) & 0xff))
      return status::foreign_state;
  if (bytes < 8 * state_header_words) return status::truncated_state;
  std::uint64_t const version = load_word(in, 1), count = load_word(in, 3);
  if (version > state_version) return status::newer_state;
  if (version == 0) return status::corrupt_state;
  if (load_word(in, 2) != options) return status::option_mismatch;
  auto const room = static_cast<std::uint64_t>((bytes - 8 * state_header_words) / (8 * unit_words));
  if (count > room) return status::truncated_state;
  units = static_cast<std::int64_t>(count);
  return status::ok;
}

/// Restores the units of a state, and makes those of `units` beyond them new. On a mistake nothing is written.
constexpr status restore_units(std::span<std::byte const> in, std::uint64_t options, gnmr_options const& o,
                               std::span<gnmr_unit> units) noexcept {
  std::int64_t count = 0, index = 0;
  if (status const s = read_header(in, options, count); s != status::ok) return s;
  if (count > static_cast<std::int64_t>(units.size())) return status::buffer_too_small;
  std::uint64_t hash = static_cast<std::uint64_t>(count);
  for (; index < count; ++index) {
    unit_state const state = load_unit(in, index);
    gnmr_unit const u = unit_of(state);
    bool const whole = state_of(u).words[7] == state.words[7];  // no bit but one of `active` was dropped
    if (!whole || !is_sound(u, o)) return status::corrupt_state;
    hash += unit_hash(u, index);
  }
  if (hash != load_word(in, 4)) return status::corrupt_state;
  index = 0;
  for (gnmr_unit& u : units) {
    u = index < count ? unit_of(load_unit(in, index)) : gnmr_unit{};
    ++index;
  }
  return status::ok;
}

}  // namespace detail
}  // namespace loft
