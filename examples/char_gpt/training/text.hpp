// SPDX-License-Identifier: Apache-2.0
// The text to learn: read from a file, split in two, cut into batches.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "char_gpt/model/layers.hpp"

namespace char_gpt {

/// All bytes of a plain or gzip file. Throws usage_error.
std::vector<std::uint8_t> read_text(std::string const& path);

struct split_text {
  std::span<std::uint8_t const> train, validation;  // the first 90 % and the rest
};

/// Throws usage_error where a part is too short for one sequence and its targets.
split_text split(std::span<std::uint8_t const> text, int context);

/// Sequences, one after the other, and the byte that follows each of their bytes.
struct batch_of_text {
  std::vector<std::uint8_t> tokens, targets;
};

/// Batches at random places: the same for the same seed.
class random_batches {
 public:
  random_batches(std::span<std::uint8_t const> text, sizes s, std::uint64_t seed)
      : text_{text}, sizes_{s}, generator_{seed} {}
  batch_of_text next();

 private:
  std::span<std::uint8_t const> text_;
  sizes sizes_;
  std::mt19937_64 generator_;
};

/// `count` batches whose sequences lie evenly over the text.
std::vector<batch_of_text> even_batches(std::span<std::uint8_t const> text, sizes s, int count);

}  // namespace char_gpt
