// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU for examples, benchmarks and tests, and the check of the runtime's errors: in CUDA's words, and in HIP's
// where a compiler of HIP reads it. The library itself allocates nothing.
//
// Nothing here takes a stream: a copy waits for all work of the GPU before it, and is over when the call returns.
#ifndef LOFT_EXAMPLES_DEVICE_MEMORY_HPP
#define LOFT_EXAMPLES_DEVICE_MEMORY_HPP

// LOFT_RUNTIME(name): what the runtime calls cuda<name> or hip<name>.
#if defined(__HIP__)
#include <hip/hip_runtime.h>
#define LOFT_RUNTIME(name) hip##name
#else
#include <cuda_runtime.h>
#define LOFT_RUNTIME(name) cuda##name
#endif

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace device {

/// Ends the program with exit code 1 where the runtime reports an error; `what` is what was tried.
inline void check(LOFT_RUNTIME(Error_t) error, char const* what) {
  if (error == LOFT_RUNTIME(Success)) return;
  std::printf("FAIL %s: %s\n", what, LOFT_RUNTIME(GetErrorString)(error));
  std::exit(1);
}

/// Whether there are so many GPUs; says so where there are not.
inline bool has(int wanted = 1) {
  int found = 0;
  if (LOFT_RUNTIME(GetDeviceCount)(&found) == LOFT_RUNTIME(Success) && found >= wanted) return true;
  std::printf("this program needs %d GPU%s\n", wanted, wanted == 1 ? "" : "s");
  return false;
}

/// Waits for all work of the GPU.
inline void wait(char const* what) { check(LOFT_RUNTIME(DeviceSynchronize)(), what); }

constexpr int poison = 0xa5;  // the bytes of memory that nobody has written

/// Numbers in the memory of the GPU that was current when they were made: no byte more than they take.
template <class T> struct array {
  T* data = nullptr;
  std::int64_t size = 0;

  array() = default;
  explicit array(std::int64_t count, int byte = poison) : size{count} {
    allocate();
    fill(byte);
  }
  array(T const* from, std::size_t count) : size{static_cast<std::int64_t>(count)} {
    allocate();
    upload(from, count);
  }
  explicit array(std::vector<T> const& from) : array(from.data(), from.size()) {}
  array(array&& other) noexcept : data{std::exchange(other.data, nullptr)}, size{std::exchange(other.size, 0)} {}
  array& operator=(array&& other) noexcept {
    std::swap(data, other.data);
    std::swap(size, other.size);
    return *this;
  }
  ~array() { (void)LOFT_RUNTIME(Free)(data); }

  /// Every byte becomes `byte`.
  void fill(int byte) {
    wait("work before a fill");
    check(LOFT_RUNTIME(Memset)(data, byte, static_cast<std::size_t>(size) * sizeof(T)), "fill");
    wait("fill");
  }
  /// The first numbers become those of the host.
  void upload(T const* from, std::size_t count) const {
    wait("work before an upload");
    check(LOFT_RUNTIME(Memcpy)(data, from, count * sizeof(T), LOFT_RUNTIME(MemcpyHostToDevice)), "upload");
    wait("upload");
  }
  void upload(std::vector<T> const& from) const { upload(from.data(), from.size()); }
  /// The first numbers, or all.
  std::vector<T> download(std::size_t count) const {
    std::vector<T> result(count);
    wait("work before a download");
    check(LOFT_RUNTIME(Memcpy)(result.data(), data, count * sizeof(T), LOFT_RUNTIME(MemcpyDeviceToHost)), "download");
    return result;
  }
  std::vector<T> download() const { return download(static_cast<std::size_t>(size)); }

 private:
  /// One byte at least, so that the pointer is never null.
  void allocate() {
    std::size_t const bytes = static_cast<std::size_t>(size) * sizeof(T);
    check(LOFT_RUNTIME(Malloc)(reinterpret_cast<void**>(&data), bytes == 0 ? 1 : bytes), "allocation");
  }
};

}  // namespace device

#endif
