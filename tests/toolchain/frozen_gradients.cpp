// SPDX-License-Identifier: Apache-2.0
// A small program for every compiler and flag set: the frozen bits of gradient estimators, outliers, residuals,
// learnable scales, second moments and the gradient-to-noise ratio. It fails with a status other than 0.
#include <cstdio>
#include <vector>

#include "loft/loft.hpp"

namespace {

constexpr std::int64_t rows = 48, cols = 160;
constexpr std::size_t size = rows * cols;

// Sixteen random bits of sign and significand, and an exponent from -7 to 0; here and there 64 times as large.
std::vector<float> values(std::uint64_t seed) {
  std::vector<float> x(size);
  for (std::size_t i = 0; i < size; ++i) {
    std::uint32_t const word = loft::random_bits<32>(seed, 0, i);
    std::uint32_t const exponent = 120 + (word >> 8 & 7) + (word % 37 == 0 ? 6 : 0);
    x[i] = loft::bit_cast<float>((word & 0x80000000u) | exponent << 23 | (word >> 16 & 0x7fffu) << 8);
  }
  return x;
}

struct hash {
  std::uint64_t value = 14695981039346656037u;
  void add(std::uint64_t word) { value = (value ^ word) * 1099511628211u; }
  void add(std::vector<float> const& x) {
    for (float const v : x) add(loft::bit_cast<std::uint32_t>(v));
  }
};

using loft::operand, loft::status;
loft::matrix_view<float const> in(std::vector<float> const& x) { return {x.data(), rows, cols, cols}; }
loft::matrix_view<float> out(std::vector<float>& x) { return {x.data(), rows, cols, cols}; }

struct check {
  char const* what;
  std::uint64_t frozen;
  int failures = 0;
  template <class Job> void operator()(Job job) {
    std::vector<float> const x = values(1);
    std::vector<float> y = values(2);
    hash h;
    status const s = job(x, y, h);
    h.add(y);
    if (s == status::ok && h.value == frozen) return;
    std::printf("%s: %llx is not the frozen %llx, status %d\n", what, static_cast<unsigned long long>(h.value),
                static_cast<unsigned long long>(frozen), static_cast<int>(s));
    failures = 1;
  }
};

template <class Operand> int estimated(char const* what, std::uint64_t frozen) {
  check c{what, frozen};
  c([](auto const& x, auto& y, hash&) {
    return loft::estimate_gradient(out(y), in(x), Operand{}, loft::differentiable_estimator{});
  });
  return c.failures;
}
template <class Decorated> int fake(char const* what, std::uint64_t frozen) {
  check c{what, frozen};
  c([](auto const& x, auto& y, hash&) { return loft::fake_quantize(in(x), out(y), Decorated{}); });
  return c.failures;
}
template <class B, loft::moment_storage S, class R> int moments(char const* what, std::uint64_t frozen) {
  check c{what, frozen};
  c([](auto const& x, auto& y, hash& h) {
    std::vector<std::uint8_t> codes(size / 2), scales(size / 16);
    float tensor_scale = 0;
    loft::quantized_view<B> const stored{codes.data(), scales.data(), &tensor_scale, rows, cols};
    loft::second_moment<operand<B, loft::default_rule<B>, R>, S> const how{};
    status const s = loft::store_second_moment(in(x), stored, how);
    for (auto const code : codes) h.add(code);
    return s == status::ok ? loft::load_second_moment(stored, out(y), how) : s;
  });
  return c.failures;
}
int learned(char const* what, std::uint64_t frozen) {
  check c{what, frozen};
  c([](auto const& x, auto& y, hash& h) {
    std::vector<float> scales(size / 32), gradients(size / 32);
    loft::scale_tiles const tiles{1, 32};
    status s = loft::initial_scales<loft::int4>(in(x), tiles, scales.data());
    if (s == status::ok) s = loft::learned_gradients<loft::int4>(in(x), tiles, scales.data(), out(y), gradients.data());
    h.add(scales), h.add(gradients);
    return s;
  });
  return c.failures;
}
int noise(char const* what, std::uint64_t frozen) {
  check c{what, frozen};
  c([](auto const& x, auto& y, hash& h) {
    std::vector<double> mean(size, 0.0);
    loft::gradient_noise_samples samples{mean.data(), static_cast<std::int64_t>(size)};
    using how = operand<loft::nvfp4, loft::unbiased_two_level, loft::stochastic<>>;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      status const s = loft::fake_quantize(in(x), out(y), how{{}, {seed, 0}});
      if (s != status::ok) return s;
      samples.add(x.data(), y.data());
      h.add(loft::bit_cast<std::uint64_t>(samples.result().ratio()));
    }
    loft::gradient_to_noise const one = loft::one_gradient_to_noise(x.data(), y.data(), size);
    h.add(loft::bit_cast<std::uint64_t>(one.risk()));
    return status::ok;
  });
  return c.failures;
}

}  // namespace

int main() {
  using loft::moment_storage, loft::nearest_even, loft::two_of_four;
  using rotated = operand<loft::nvfp4, loft::two_level, nearest_even, loft::hadamard<16>>;
  int failures = 0;
  failures += estimated<operand<loft::mxfp4>>("differentiable, mxfp4", 0x4938ed3ecd8a1f4);
  failures += estimated<operand<loft::nvfp4>>("differentiable, nvfp4", 0x14e371f74ad2d7ea);
  failures += estimated<operand<loft::if4>>("differentiable, if4", 0x3614e32023556814);
  failures += estimated<rotated>("differentiable, rotated", 0xcd1cb035c2715f39);
  failures += fake<loft::clamped<operand<loft::nvfp4>>>("clamped", 0xe50cd4fff01d0bd9);
  failures += fake<loft::with_residual<operand<loft::nvfp4>, two_of_four>>("residual, 2:4", 0x67c2f97619de65aa);
  failures += moments<loft::mx_moment4, moment_storage::root, nearest_even>("moments, roots", 0x7514a5bfe9661f97);
  failures += moments<loft::nv_moment4, moment_storage::root, loft::stochastic<>>("moments, stochastic roots",
                                                                                  0xc63be660906671bd);
  failures += moments<loft::nv_moment4, moment_storage::direct, nearest_even>("moments, direct", 0x63075b82c5682549);
  failures += learned("learnable scales", 0xc1da0e86fe7b3c2e);
  failures += noise("gradient to noise", 0xda82ac19081f12c9);
  std::printf("%d of 11 differ\n", failures);
  return failures == 0 ? 0 : 1;
}
