// SPDX-License-Identifier: Apache-2.0
// What the library's HIP sources take from ROCm's header, declared for clang where there is no ROCm. hip_stub.cpp has
// the definitions that a program needs to be linked.
#pragma once

#include <stdlib.h>  // clang's wrapper of <new> needs it first

#include <cstddef>

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
// As ROCm has it: the second number, where there is one, counts waves.
#define __launch_bounds__(threads, ...) \
  __attribute__((amdgpu_flat_work_group_size(1, threads) __VA_OPT__(, amdgpu_waves_per_eu(__VA_ARGS__))))

enum hipError_t { hipSuccess = 0, hipErrorInvalidValue = 1, hipErrorNoDevice = 100 };
enum hipMemcpyKind { hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost = 2, hipMemcpyDeviceToDevice = 3 };
enum hipStreamCaptureMode { hipStreamCaptureModeGlobal = 0, hipStreamCaptureModeThreadLocal = 1 };
enum hipFuncAttribute { hipFuncAttributeMaxDynamicSharedMemorySize = 8 };
constexpr unsigned hipStreamNonBlocking = 1;
typedef struct ihipStream_t* hipStream_t;
typedef struct ihipGraph* hipGraph_t;
typedef struct hipGraphExec* hipGraphExec_t;

struct dim3 {
  unsigned x, y, z;
  __host__ __device__ constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x{x_}, y{y_}, z{z_} {}
};

extern "C" {
hipError_t hipLaunchKernel(void const* kernel, dim3 blocks, dim3 threads, void** arguments, std::size_t shared,
                           hipStream_t stream);
hipError_t hipMemsetAsync(void* memory, int value, std::size_t bytes, hipStream_t stream);
hipError_t hipGetDeviceCount(int* count);
hipError_t hipDeviceSynchronize();
hipError_t hipMalloc(void** memory, std::size_t bytes);
hipError_t hipFree(void* memory);
hipError_t hipMemcpy(void* to, void const* from, std::size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void* to, void const* from, std::size_t bytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemset(void* memory, int value, std::size_t bytes);
hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph);
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* executable, hipGraph_t graph, unsigned long long flags);
hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphExecDestroy(hipGraphExec_t executable);
hipError_t hipFuncSetAttribute(void const* kernel, hipFuncAttribute attribute, int value);
char const* hipGetErrorString(hipError_t error);
hipError_t hipGetLastError();
hipError_t hipPeekAtLastError();
// What clang makes of kernel<<<...>>>.
hipError_t __hipPushCallConfiguration(dim3 blocks, dim3 threads, std::size_t shared = 0, hipStream_t stream = nullptr);
hipError_t __hipPopCallConfiguration(dim3* blocks, dim3* threads, std::size_t* shared, hipStream_t* stream);
}

template <class T> hipError_t hipMalloc(T** memory, std::size_t bytes) {
  return hipMalloc(reinterpret_cast<void**>(memory), bytes);
}

template <class T> __device__ T atomicAdd(T* word, T value) {
  return __hip_atomic_fetch_add(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// The built-in variables, of one dimension.
struct loft_thread_index {
  __device__ unsigned get() const { return __builtin_amdgcn_workitem_id_x(); }
  __declspec(property(get = get)) unsigned x;
};
struct loft_block_index {
  __device__ unsigned get() const { return __builtin_amdgcn_workgroup_id_x(); }
  __declspec(property(get = get)) unsigned x;
};
struct loft_block_size {
  __device__ unsigned get() const { return __builtin_amdgcn_workgroup_size_x(); }
  __declspec(property(get = get)) unsigned x;
};
struct loft_grid_size {
  __device__ unsigned get() const { return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(); }
  __declspec(property(get = get)) unsigned x;
};
static __device__ loft_thread_index const threadIdx{};
static __device__ loft_block_index const blockIdx{};
static __device__ loft_block_size const blockDim{};
static __device__ loft_grid_size const gridDim{};
