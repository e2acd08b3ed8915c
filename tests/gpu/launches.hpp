// SPDX-License-Identifier: Apache-2.0
// What the programs that test launches share: outputs with guards around them, one matrix in many shapes of memory, and
// the count of what was compared.
//
// An output is compared as a whole piece of memory: results, guards and everything between them. It is poisoned before
// each call, and each call is made with two poisons. What surrounds an input is NaN.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../examples/device_memory.hpp"
#include "loft/cuda.hpp"
#include "loft/loft.hpp"

namespace gpu_tests {

using namespace loft;

inline long compared = 0, failures = 0;
inline std::string current = "the start";  // what is tried, for messages

inline void check(cudaError_t error) { device::check(error, current.c_str()); }

inline void expect(bool right, char const* what, long weight = 1) {
  compared += weight;
  if (right) return;
  if (++failures <= 60) std::printf("FAIL %s: %s\n", current.c_str(), what);
}

/// Prints what a group of checks came to.
struct group {
  std::string name;
  long compared_before = compared, failures_before = failures;
  explicit group(char const* what) : name{what, std::strcspn(what, ":")} {}
  ~group() {
    std::printf("%-44s %12ld compared %6ld failures\n", name.c_str(), compared - compared_before,
                failures - failures_before);
    std::fflush(stdout);
  }
  group(group const&) = delete;
};

/// The exit code of a program that had a GPU.
inline int report() {
  std::printf("%ld results compared, %ld failures\n", compared, failures);
  return failures == 0 && compared != 0 ? 0 : 1;
}

/// The stream of all calls: one of its own, which does not wait for the default stream.
inline cudaStream_t stream() {
  static cudaStream_t const made = [] {
    cudaStream_t s{};
    check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
  }();
  return made;
}

/// Device memory that grows and is used again.
struct arena {
  device::array<unsigned char> memory;
  unsigned char* take(std::size_t bytes) {
    if (static_cast<std::int64_t>(bytes) > memory.size) {
      memory = {};
      memory = device::array<unsigned char>(static_cast<std::int64_t>(bytes * 3 / 2 + 4096));
    }
    return memory.data;
  }
};

// ---- inputs

/// How a matrix lies in memory.
struct memory_shape {
  char const* name;
  int offset = 0;           ///< elements off the alignment
  int pad = 0;              ///< elements between two lines; -1: lines start at multiples of 64 elements, with a gap
  int step = 1;             ///< from one element of a line to the next
  bool by_columns = false;  ///< lines are columns
  bool rows_backwards = false, cols_backwards = false;
  int code_offset = 0;  ///< bytes that codes, and elements that scales, are off their alignment
};

inline constexpr memory_shape memory_shapes[] = {
    {"contiguous"},
    {"contiguous, outputs off", 0, 0, 1, false, false, false, 1},
    {"one element off", 1},
    {"aligned pitch", 0, -1},
    {"aligned pitch, outputs off", 0, -1, 1, false, false, false, 8},
    {"odd pitch", 0, 3},
    {"by columns", 0, 0, 1, true},
    {"by columns, aligned pitch", 0, -1, 1, true},
    {"by columns, off, odd pitch, outputs off", 1, 5, 1, true, false, false, 3},
    {"rows backwards, aligned pitch", 0, -1, 1, false, true},
    {"columns backwards", 0, 0, 1, false, false, true},
    {"by columns, all backwards", 0, 0, 1, true, true, true},
    {"every second element, odd pitch", 0, 1, 2},
};

/// Where element (r, c) of a matrix stands in its memory.
struct strides {
  std::int64_t start, row, col, size;
};
inline strides strides_of(memory_shape const& m, std::int64_t rows, std::int64_t cols) {
  std::int64_t const inner = m.by_columns ? rows : cols, outer = m.by_columns ? cols : rows;
  std::int64_t const pitch = m.pad < 0 ? (inner * m.step + 63) / 64 * 64 + 64 : inner * m.step + m.pad;
  strides s{64 + m.offset, pitch, m.step, 0};
  if (m.by_columns) std::swap(s.row, s.col);
  s.size = s.start + outer * pitch + inner * m.step + 64;
  if (m.rows_backwards && rows > 0) s.start += (rows - 1) * s.row, s.row = -s.row;
  if (m.cols_backwards && cols > 0) s.start += (cols - 1) * s.col, s.col = -s.col;
  return s;
}

/// The matrix in device memory, NaN around it. The memory is that of the call before.
template <class T>
matrix_view<T const> place(std::vector<T> const& values, std::int64_t rows, std::int64_t cols, memory_shape const& m) {
  static arena memory;
  auto const s = strides_of(m, rows, cols);
  std::vector<T> host(static_cast<std::size_t>(s.size));
  std::memset(static_cast<void*>(host.data()), 0xff, host.size() * sizeof(T));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      host[static_cast<std::size_t>(s.start + r * s.row + c * s.col)] = values[static_cast<std::size_t>(r * cols + c)];
  auto* const data = reinterpret_cast<T*>(memory.take(host.size() * sizeof(T)));
  check(cudaMemcpyAsync(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice, stream()));
  check(cudaStreamSynchronize(stream()));
  return {data + s.start, rows, cols, s.row, s.col};
}

/// What a matrix holds. tame: normal numbers over 21 binades in runs of 64, some runs zero or tiny, a rare NaN or
/// infinity. wild: patterns of random bits, subnormals and huge numbers, some runs zero. poisoned: tame, and one of 500
/// is not finite. plain: tame and finite.
enum class content { tame, wild, poisoned, plain };

template <class T> T from_bits(std::uint32_t bits) {
  if constexpr (std::is_same_v<T, float>) return bit_cast<float>(bits);
  else return T::from_bits(static_cast<code<typename T::format>>(bits >> 16));
}
template <class T> bool is_finite(T x) { return std::isfinite(static_cast<float>(x)); }

template <class T> std::vector<T> numbers(std::int64_t rows, std::int64_t cols, unsigned seed, content what) {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  std::vector<T> values(static_cast<std::size_t>(rows * cols));
  unsigned const rare = what == content::poisoned ? 500 : 40000;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    std::int64_t const run = i / 64;
    float x = std::ldexp(normal(random), static_cast<int>(run % 21) - 10);
    if (run % 13 == 5) x = std::copysign(0.0f, x);
    if (run % 17 == 8) x = std::ldexp(x, -20);
    T value = static_cast<T>(x);
    if (what == content::wild && run % 13 != 5) {
      value = from_bits<T>(static_cast<std::uint32_t>(random()));
      if (run % 7 == 3) value = from_bits<T>(static_cast<std::uint32_t>(random()) & 0x807f'ffffu);
      if (!is_finite(value)) value = static_cast<T>(x);
    }
    if (what != content::plain && random() % rare == 0) value = from_bits<T>(0x7fc1'0000u | random() << 31);
    if (what != content::plain && random() % rare == 0)
      value = from_bits<T>((std::is_same_v<T, fp16_t> ? 0x7c00'0000u : 0x7f80'0000u) |
                           static_cast<std::uint32_t>(random()) << 31);
    values[static_cast<std::size_t>(i)] = value;
  }
  return values;
}

// ---- outputs

/// A piece of memory that a call writes into, with guards between its parts.
struct image {
  static constexpr std::int64_t guard = 256;
  std::int64_t size = guard;
  std::vector<std::int64_t> ignored;  ///< first, end, first, end, ... of what is not compared

  /// Adds a part; gives its place. `shift`: bytes behind the alignment.
  std::int64_t add(std::int64_t bytes, std::int64_t alignment, std::int64_t shift) {
    std::int64_t const at = (size + alignment - 1) / alignment * alignment + shift;
    size = at + bytes + guard;
    return at;
  }
  std::int64_t add_ignored(std::int64_t bytes) {
    std::int64_t const at = add(bytes, 16, 0);
    ignored.push_back(at);
    ignored.push_back(at + bytes);
    return at;
  }
};

/// Makes the call twice, into memory with two poisons, and compares all of it with what `write(bytes, poison)` makes of
/// poisoned memory. `call(base)` gives a status, which is to be `right`.
template <class Call, class Write>
void compare_image(image const& parts, Call const& call, Write const& write, status right = status::ok) {
  static arena memory;
  auto const bytes = static_cast<std::size_t>(parts.size);
  unsigned char* const base = memory.take(bytes);
  std::vector<unsigned char> got(bytes), want(bytes);
  for (int const poison : {0xa5, 0x5a}) {
    check(cudaMemsetAsync(base, poison, bytes, stream()));
    status const s = call(base);
    if (s != right) return expect(false, message(s));
    check(cudaGetLastError());
    check(cudaMemcpyAsync(got.data(), base, bytes, cudaMemcpyDeviceToHost, stream()));
    check(cudaStreamSynchronize(stream()));
    std::memset(want.data(), poison, bytes);
    write(want.data());
    for (std::size_t i = 0; i + 1 < parts.ignored.size(); i += 2)
      std::memcpy(want.data() + parts.ignored[i], got.data() + parts.ignored[i],
                  static_cast<std::size_t>(parts.ignored[i + 1] - parts.ignored[i]));
    if (std::memcmp(got.data(), want.data(), bytes) == 0) {
      expect(true, "", static_cast<long>(bytes));
      continue;
    }
    auto const [mine, other] = std::mismatch(got.begin(), got.end(), want.begin());
    long differences = 0;
    for (std::size_t i = 0; i < bytes; ++i) differences += got[i] != want[i];
    char text[160];
    std::snprintf(text, sizeof text, "%ld of %zu bytes differ, the first at %lld: %02x, not %02x (poison %02x)",
                  differences, bytes, static_cast<long long>(mine - got.begin()), *mine, *other,
                  static_cast<unsigned>(poison));
    expect(false, text, static_cast<long>(bytes));
  }
}

}  // namespace gpu_tests
