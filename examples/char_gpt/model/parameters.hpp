// SPDX-License-Identifier: Apache-2.0
// The parameters of a model in one array, and their gradients in another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace char_gpt {

/// One tensor within the array of all parameters, and within the array of their gradients.
struct tensor_place {
  std::string name;
  std::int64_t begin, size;
  bool decays;  // weight decay acts on matrices, not on norms, scales and biases
};

template <class T> class parameter_set {
 public:
  /// Each returns where the tensor begins. Matrices start with normal noise, vectors with one value.
  std::int64_t add_matrix(std::string name, std::int64_t size, double deviation) {
    return add(std::move(name), size, true, deviation);
  }
  std::int64_t add_vector(std::string name, std::int64_t size, double value) {
    return add(std::move(name), size, false, value);
  }

  /// Allocates all that was added, and gives it the values to start with.
  void initialize(std::uint64_t seed) {
    values_.resize(static_cast<std::size_t>(tensors_.back().begin + tensors_.back().size));
    gradients_.resize(values_.size());
    std::mt19937_64 generator{seed};
    std::normal_distribution<double> normal;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      T* const begin = values(tensors_[t].begin);
      for (std::int64_t i = 0; i < tensors_[t].size; ++i)
        begin[i] = static_cast<T>(tensors_[t].decays ? starts_[t] * normal(generator) : starts_[t]);
    }
  }

  T* values(std::int64_t begin) noexcept { return values_.data() + begin; }
  T* gradients(std::int64_t begin) noexcept { return gradients_.data() + begin; }
  std::span<T> values() noexcept { return values_; }
  std::span<T> gradients() noexcept { return gradients_; }
  std::vector<tensor_place> const& tensors() const noexcept { return tensors_; }

 private:
  std::int64_t add(std::string name, std::int64_t size, bool decays, double start) {
    std::int64_t const begin = tensors_.empty() ? 0 : tensors_.back().begin + tensors_.back().size;
    tensors_.push_back({std::move(name), begin, size, decays});
    starts_.push_back(start);
    return begin;
  }

  std::vector<tensor_place> tensors_;
  std::vector<double> starts_;  // of each: the deviation of a matrix, the value of a vector
  std::vector<T> values_, gradients_;
};

}  // namespace char_gpt
