// SPDX-License-Identifier: Apache-2.0
// Memory, time and the name of a GPU for the benchmark, in CUDA's and in HIP's words.
#ifndef LOFT_BENCH_GPU_DEVICE_HPP
#define LOFT_BENCH_GPU_DEVICE_HPP

#if defined(__HIP__)
#include <hip/hip_runtime.h>

#include "loft/hip.hpp"
#define LOFT_GPU(name) hip##name
using chip = loft::hip;
#else
#include <cuda_runtime.h>

#include "loft/cuda.hpp"
#define LOFT_GPU(name) cuda##name
using chip = loft::cuda;
#endif

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

inline void check_gpu(LOFT_GPU(Error_t) error, char const* what) {
  if (error == LOFT_GPU(Success)) return;
  std::fprintf(stderr, "%s: %s\n", what, LOFT_GPU(GetErrorString)(error));
  std::exit(1);
}

/// `count` numbers of the GPU's memory.
template <class T>
class device_memory {
 public:
  device_memory() = default;
  explicit device_memory(std::int64_t count) : count_{count} {
    check_gpu(LOFT_GPU(Malloc)(reinterpret_cast<void**>(&data_), bytes() + 16), "allocation");
  }
  device_memory(device_memory&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, count_{std::exchange(other.count_, 0)} {}
  device_memory& operator=(device_memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~device_memory() {
    if (data_ != nullptr) check_gpu(LOFT_GPU(Free)(data_), "free");
  }
  T* get() const { return data_; }
  std::int64_t size() const { return count_; }
  void poison() { check_gpu(LOFT_GPU(Memset)(data_, 0xa5, bytes()), "poison"); }
  void zero() { check_gpu(LOFT_GPU(Memset)(data_, 0, bytes()), "zero"); }
  void upload(T const* from) {
    check_gpu(LOFT_GPU(Memcpy)(data_, from, bytes(), LOFT_GPU(MemcpyHostToDevice)), "upload");
  }
  void download(T* to) const {
    check_gpu(LOFT_GPU(Memcpy)(to, data_, bytes(), LOFT_GPU(MemcpyDeviceToHost)), "download");
  }
  void copy_from(device_memory const& other) {
    check_gpu(LOFT_GPU(MemcpyAsync)(data_, other.data_, bytes(), LOFT_GPU(MemcpyDeviceToDevice), nullptr), "copy");
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(T); }
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

/// Time between two points of the default stream.
class device_timer {
 public:
  device_timer() {
    check_gpu(LOFT_GPU(EventCreate)(&start_), "event");
    check_gpu(LOFT_GPU(EventCreate)(&stop_), "event");
  }
  ~device_timer() {
    check_gpu(LOFT_GPU(EventDestroy)(start_), "event");
    check_gpu(LOFT_GPU(EventDestroy)(stop_), "event");
  }
  device_timer(device_timer const&) = delete;
  device_timer& operator=(device_timer const&) = delete;
  void start() { check_gpu(LOFT_GPU(EventRecord)(start_, nullptr), "event"); }
  /// Seconds since start, when all launches are done.
  double seconds() {
    check_gpu(LOFT_GPU(EventRecord)(stop_, nullptr), "event");
    check_gpu(LOFT_GPU(EventSynchronize)(stop_), "event");
    float milliseconds = 0;
    check_gpu(LOFT_GPU(EventElapsedTime)(&milliseconds, start_, stop_), "event");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  LOFT_GPU(Event_t) start_, stop_;
};

/// The chip, or nothing where there is none.
inline std::string device_name() {
#if defined(__HIP__)
  hipDeviceProp_t properties;
#else
  cudaDeviceProp properties;
#endif
  if (LOFT_GPU(GetDeviceProperties)(&properties, 0) != LOFT_GPU(Success)) return {};
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
