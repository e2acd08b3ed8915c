// SPDX-License-Identifier: Apache-2.0
// The launchers in HIP's dialect, on a machine without a GPU: what they refuse, and what they make of a failed launch.
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "loft/hip.hpp"

extern "C" int loft_stub_registered_kernels();
extern "C" int loft_stub_refused_launches();
extern "C" std::size_t loft_stub_largest_shared();

loft::status all_float_tiles(float const* values, std::uint8_t* codes, std::uint8_t* scales, std::uint32_t* factors);

namespace {

int failures = 0;

void check(bool holds, char const* what) {
  if (holds) return;
  std::printf("FAIL %s\n", what);
  ++failures;
}

alignas(16) float values[128 * 128];
alignas(16) std::uint8_t codes[128 * 128], scales[128 * 4];
std::uint32_t factors[2];

}  // namespace

int main() {
  using loft::status;
  using mxfp4 = loft::operand<loft::mxfp4>;
  loft::matrix_view<float const> const in{values, 4, 64, 64};
  loft::quantized_view<loft::mxfp4> const out{codes, scales, nullptr, 4, 64};

  check(loft_stub_registered_kernels() > 0, "the program registers its kernels");
  check(loft::hip::quantize(in, out, mxfp4{}, {}) == status::launch_failed, "a launch that fails gives launch_failed");
  int const launches = loft_stub_refused_launches();
  check(launches == 1, "one launch was tried");

  auto refused = in;
  refused.data = nullptr;
  check(loft::hip::quantize(refused, out, mxfp4{}, {}) == status::null_pointer, "a null pointer is refused");
  refused = in;
  refused.cols = 32;
  check(loft::hip::quantize(refused, out, mxfp4{}, {}) == status::shape_mismatch, "another shape is refused");
  check(loft_stub_refused_launches() == launches, "what is refused launches nothing");

  check(all_float_tiles(values, codes, scales, factors) == status::launch_failed, "tiles of floats come to a launch");
  check(loft_stub_largest_shared() == 64 * 1024,
        "no launch asks for more than 64 KiB of shared memory, and one for all");

  std::printf("%d kernels, %d failures\n", loft_stub_registered_kernels(), failures);
  return failures == 0 ? 0 : 1;
}
