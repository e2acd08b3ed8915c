// SPDX-License-Identifier: Apache-2.0
// The launchers that are measured, time on a GPU and its name, in CUDA's and in HIP's words.
#ifndef LOFT_BENCH_GPU_DEVICE_HPP
#define LOFT_BENCH_GPU_DEVICE_HPP

#include <string>

#include "../examples/device_memory.hpp"
#if defined(__HIP__)
#include "loft/hip.hpp"
using chip = loft::hip;
#else
#include "loft/cuda.hpp"
using chip = loft::cuda;
#endif

/// Time between two points of the default stream.
class device_timer {
 public:
  device_timer() {
    device::check(LOFT_RUNTIME(EventCreate)(&start_), "event");
    device::check(LOFT_RUNTIME(EventCreate)(&stop_), "event");
  }
  ~device_timer() {
    device::check(LOFT_RUNTIME(EventDestroy)(start_), "event");
    device::check(LOFT_RUNTIME(EventDestroy)(stop_), "event");
  }
  device_timer(device_timer const&) = delete;
  device_timer& operator=(device_timer const&) = delete;
  void start() { device::check(LOFT_RUNTIME(EventRecord)(start_, nullptr), "event"); }
  /// Seconds since start, when all launches are done.
  double seconds() {
    device::check(LOFT_RUNTIME(EventRecord)(stop_, nullptr), "event");
    device::check(LOFT_RUNTIME(EventSynchronize)(stop_), "event");
    float milliseconds = 0;
    device::check(LOFT_RUNTIME(EventElapsedTime)(&milliseconds, start_, stop_), "event");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  LOFT_RUNTIME(Event_t) start_, stop_;
};

/// The chip, or nothing where there is none.
inline std::string device_name() {
#if defined(__HIP__)
  hipDeviceProp_t properties;
#else
  cudaDeviceProp properties;
#endif
  if (LOFT_RUNTIME(GetDeviceProperties)(&properties, 0) != LOFT_RUNTIME(Success)) return {};
  return properties.name;
}
inline std::string device_compiler() {
#if defined(__HIP__)
  return "clang " __clang_version__;
#else
  return "nvcc " + std::to_string(__CUDACC_VER_MAJOR__) + "." + std::to_string(__CUDACC_VER_MINOR__) + "." +
         std::to_string(__CUDACC_VER_BUILD__);
#endif
}

#endif
