// SPDX-License-Identifier: Apache-2.0
// One tensor on two GPUs: each has half of its rows, and both quantize with the scale of the whole tensor. Codes, scales
// and the tensor's scale are those that one GPU finds, which the program checks.
//
// A format of two levels needs the amax of the tensor. Each GPU finds that of its shard; NCCL reduces it to the maximum,
// in device memory, where the quantizer reads it: nothing waits for the host. A NaN is not part of an amax, and must not
// be: a maximum may lose it or spread it, as its implementation likes. So the count of elements that are not finite goes
// its own way, as a sum, and the trainer looks at it when it likes. It is a by-product of the norm.
//
// NCCL is not part of the CUDA toolkit. Where Python has it (pip install nvidia-nccl-cu13):
//   nccl=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])')
//   nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude -I$nccl/include examples/amax_nccl/amax_nccl.cu -o amax_nccl
//     -Xlinker $nccl/lib/libnccl.so.2 -Xlinker -rpath=$nccl/lib && ./amax_nccl
// Exit code 0 where all bits agree, 1 where one differs, 2 without two GPUs.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "../two_gpus.hpp"
#include "loft/cuda.hpp"
#include "loft/loft.hpp"

namespace {

constexpr int ranks = 2;
constexpr std::int64_t rows = 1024, cols = 4096;

template <class T> void append(std::vector<T>& to, device::array<T> const& from) {
  std::vector<T> const more = from.download();
  to.insert(to.end(), more.begin(), more.end());
}

/// The codes and scales of a tensor; shards of whole rows stand one after the other.
template <class B> struct quantized {
  std::vector<std::uint8_t> codes;
  std::vector<loft::code<typename B::scale>> scales;
  std::vector<float> tensor_scales;  ///< of each shard
  double nonfinite = 0;
};

/// What one rank holds: its rows, and all that the calls work in.
template <class Operand> struct shard {
  using format = typename Operand::format;
  using scale = loft::code<typename format::scale>;
  std::int64_t first, count;  ///< rows
  cudaStream_t stream{};
  device::array<loft::bf16_t> values;
  device::array<float> amax{1};
  device::array<loft::norm_partial> norm{1};
  loft::cuda::norm_item<loft::bf16_t> item;
  std::int64_t chunks;
  device::array<loft::cuda::norm_item<loft::bf16_t>> list;
  device::array<std::uint8_t> codes;
  device::array<scale> scales;
  device::array<float> tensor_scale{1};
  device::array<unsigned char> memory, norm_memory;
  loft::quantized_view<format> out;
  loft::cuda::context where, norm_where;  ///< a norm keeps counters in its workspace, so that it has its own

  /// In memory of the GPU that is current.
  shard(std::vector<loft::bf16_t> const& tensor, std::int64_t first_row, std::int64_t row_count)
      : first{first_row},
        count{row_count},
        values{tensor.data() + first * cols, static_cast<std::size_t>(count * cols)},
        item{values.data, count * cols, 0},
        chunks{loft::cuda::plan_norms(&item, 1)},
        list{&item, 1},
        codes(loft::codes_bytes<format>(count, cols)),
        scales(loft::scale_count<format>(count, cols)),
        memory(loft::cuda::workspace_bytes<Operand>()),
        norm_memory(loft::cuda::norm_workspace_bytes(1, chunks), 0),  // its counters start at zero
        out{codes.data, scales.data, tensor_scale.data, count, cols} {
    check(cudaStreamCreate(&stream));
    where = {stream, memory.data, memory.size, amax.data, nullptr};
    norm_where = {stream, norm_memory.data, norm_memory.size};
  }
  loft::matrix_view<loft::bf16_t const> view() const { return {values.data, count, cols, cols}; }

  /// What this shard alone knows: the largest finite magnitude, and the sums of the norm.
  void look(Operand const& how) {
    check(loft::cuda::partial_norms(list.data, 1, chunks, norm.data, norm_where));
    check(loft::cuda::tensor_amax(view(), how, amax.data, where));
  }
  void quantize(Operand const& how) { check(loft::cuda::quantize(view(), out, how, where)); }

  void collect(quantized<format>& to) const {
    append(to.codes, codes);
    append(to.scales, scales);
    append(to.tensor_scales, tensor_scale);
    to.nonfinite = norm.download()[0].nonfinite;  // after the reduction the same on all ranks
  }
};

/// Both GPUs, each with its rows; `split`: the rows of the first.
template <class Operand>
quantized<typename Operand::format> on_two(std::vector<loft::bf16_t> const& tensor, std::int64_t split,
                                           Operand const& how, ncclComm_t const (&comms)[ranks]) {
  std::vector<shard<Operand>> shards;
  for (int rank = 0; rank < ranks; ++rank) {
    check(cudaSetDevice(rank));
    shards.emplace_back(tensor, rank == 0 ? 0 : split, rank == 0 ? split : rows - split);
    shards.back().look(how);
  }
  check(ncclGroupStart());
  for (int rank = 0; rank < ranks; ++rank) {
    auto& s = shards[static_cast<std::size_t>(rank)];
    check(ncclAllReduce(s.amax.data, s.amax.data, 1, ncclFloat, ncclMax, comms[rank], s.stream));
    check(ncclAllReduce(s.norm.data, s.norm.data, 2, ncclDouble, ncclSum, comms[rank],
                        s.stream));  // both doubles of the partial
  }
  check(ncclGroupEnd());
  quantized<typename Operand::format> result;
  for (int rank = 0; rank < ranks; ++rank) {
    check(cudaSetDevice(rank));
    shards[static_cast<std::size_t>(rank)].quantize(how);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    check(cudaSetDevice(rank));
    shards[static_cast<std::size_t>(rank)].collect(result);
  }
  return result;
}

/// One GPU with the whole tensor, which computes its amax itself.
template <class Operand>
quantized<typename Operand::format> on_one(std::vector<loft::bf16_t> const& tensor, Operand const& how) {
  check(cudaSetDevice(0));
  shard<Operand> whole(tensor, 0, rows);
  whole.look(how);
  whole.where.amax = nullptr;
  whole.quantize(how);
  quantized<typename Operand::format> result;
  whole.collect(result);
  return result;
}

template <class Operand>
quantized<typename Operand::format> on_host(std::vector<loft::bf16_t> const& tensor, Operand const& how) {
  using format = typename Operand::format;
  quantized<format> result;
  result.codes.resize(static_cast<std::size_t>(loft::codes_bytes<format>(rows, cols)));
  result.scales.resize(static_cast<std::size_t>(loft::scale_count<format>(rows, cols)));
  result.tensor_scales.resize(1);
  loft::quantized_view<format> const out{result.codes.data(), result.scales.data(), result.tensor_scales.data(), rows,
                                         cols};
  check(loft::quantize(loft::matrix_view<loft::bf16_t const>{tensor.data(), rows, cols, cols}, out, how));
  result.nonfinite = loft::partial_norm(tensor.data(), rows * cols).nonfinite;
  return result;
}

template <class B> bool same(quantized<B> const& a, quantized<B> const& b) {
  bool result = a.codes == b.codes && a.scales == b.scales && a.nonfinite == b.nonfinite;
  for (float scale : a.tensor_scales) result = result && scale == b.tensor_scales[0];
  return result;
}

/// The largest magnitude in the last row, so that the first rank has to hear of it; NaN and infinity in both halves.
std::vector<loft::bf16_t> make_tensor() {
  std::mt19937 random{5};
  std::normal_distribution<float> normal;
  std::vector<loft::bf16_t> tensor(static_cast<std::size_t>(rows * cols));
  for (auto& x : tensor) x = static_cast<loft::bf16_t>(normal(random));
  tensor[static_cast<std::size_t>(rows * cols) - 7] = static_cast<loft::bf16_t>(-300.0f);
  tensor[12345] = loft::bf16_t::from_bits(0x7fc0);
  tensor[static_cast<std::size_t>(rows * cols) - 12345] = loft::bf16_t::from_bits(0xff80);
  return tensor;
}

}  // namespace

int main() {
  if (!device::has(ranks)) return 2;
  ncclComm_t comms[ranks];
  int const device_of[ranks] = {0, 1};
  check(ncclCommInitAll(comms, ranks, device_of));
  auto const tensor = make_tensor();
  bool right = true;
  for (std::int64_t const split : {rows / 2, rows / 3}) {
    loft::operand<loft::nvfp4> const how{};
    auto const two = on_two(tensor, split, how, comms);
    bool const as_one = same(two, on_one(tensor, how)), as_host = same(two, on_host(tensor, how));
    std::printf(
        "nvfp4, %lld + %lld rows on two GPUs: codes, scales, tensor scale %s one GPU's, %s the host's; %.0f not "
        "finite\n",
        static_cast<long long>(split), static_cast<long long>(rows - split), as_one ? "are" : "ARE NOT",
        as_host ? "are" : "ARE NOT", two.nonfinite);
    right = right && as_one && as_host && two.nonfinite == 2;
  }
  for (auto& comm : comms) check(ncclCommDestroy(comm));
  return right ? 0 : 1;
}
