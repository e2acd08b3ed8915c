// SPDX-License-Identifier: Apache-2.0
// A HIP runtime of a machine without a GPU: kernels are registered and counted, and every launch fails. The most shared
// memory that one asked for is kept.
#include <cstddef>

namespace {
int registered_kernels = 0, refused_launches = 0;
std::size_t largest_shared = 0;
constexpr int no_device = 100;
}  // namespace

struct three {
  unsigned x, y, z;
};

extern "C" {
int loft_stub_registered_kernels() { return registered_kernels; }
int loft_stub_refused_launches() { return refused_launches; }
std::size_t loft_stub_largest_shared() { return largest_shared; }

void** __hipRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __hipUnregisterFatBinary(void**) {}
void __hipRegisterFunction(void**, void const*, char*, char const*, unsigned, void*, void*, void*, void*, int*) {
  ++registered_kernels;
}
void __hipRegisterVar(void**, void*, char*, char const*, int, std::size_t, int, int) {}
int __hipPushCallConfiguration(three, three, std::size_t, void*) { return 0; }
int __hipPopCallConfiguration(three*, three*, std::size_t*, void**) { return 0; }
int hipLaunchKernel(void const*, three, three, void**, std::size_t shared, void*) {
  if (shared > largest_shared) largest_shared = shared;
  ++refused_launches;
  return no_device;
}
int hipMemsetAsync(void*, int, std::size_t, void*) {
  ++refused_launches;
  return no_device;
}
int hipGetDeviceCount(int* count) {
  *count = 0;
  return no_device;
}
int hipDeviceSynchronize() { return no_device; }
int hipMalloc(void**, std::size_t) { return no_device; }
int hipFree(void*) { return no_device; }
int hipMemcpy(void*, void const*, std::size_t, int) { return no_device; }
int hipMemset(void*, int, std::size_t) { return no_device; }
char const* hipGetErrorString(int) { return "no device"; }
int hipGetLastError() { return no_device; }
int hipPeekAtLastError() { return no_device; }
}
