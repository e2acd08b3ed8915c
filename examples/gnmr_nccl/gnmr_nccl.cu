// SPDX-License-Identifier: Apache-2.0
// GNMR on two GPUs, each of which has half of every unit's gradient. Both take the decisions of the host, to the bit, and
// a NaN on one GPU is seen by both; the program checks it.
//
// Each GPU takes the partial norms of its halves. They are plain doubles that add up: NCCL sums them in device memory,
// where the step reads them and leaves the decisions. Nothing waits for the host.
//
// NCCL is not part of the CUDA toolkit. Where Python has it (pip install nvidia-nccl-cu13):
//   nccl=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])')
//   nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude -I$nccl/include examples/gnmr_nccl/gnmr_nccl.cu -o gnmr_nccl
//     -Xlinker $nccl/lib/libnccl.so.2 -Xlinker -rpath=$nccl/lib && ./gnmr_nccl
// Exit code 0 where all agrees, 1 where something differs, 2 without two GPUs.
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

constexpr int ranks = 2, units = 24, steps = 100;
constexpr std::int64_t share = 20000;  // numbers of a unit on one rank
constexpr int nan_step = 40, nan_unit = 7, nan_rank = 1;

using gradient = std::vector<loft::bf16_t>;  // one rank's half of every unit, one after the other

/// What one rank holds.
struct rank_state {
  int number;  // of the GPU
  cudaStream_t stream{};
  device::array<loft::bf16_t> values{units * share, 0};
  std::vector<loft::cuda::norm_item<loft::bf16_t>> items;
  std::int64_t chunks;
  device::array<loft::cuda::norm_item<loft::bf16_t>> list;
  device::array<loft::norm_partial> partials{units, 0};
  device::array<unsigned char> workspace;
  device::array<loft::gnmr_unit> states{units, 0};
  device::array<loft::gnmr_report> report{1, 0};
  loft::cuda::context where;
  loft::cuda::gnmr_memory<loft::norm_partial> memory;

  /// In memory of the GPU that is current.
  explicit rank_state(int of)
      : number{of},
        items{items_of(values.data)},
        chunks{loft::cuda::plan_norms(items.data(), units)},
        list{items},
        workspace(loft::cuda::norm_workspace_bytes(units, chunks), 0) {
    check(cudaStreamCreate(&stream));
    where.stream = stream, where.workspace = workspace.data, where.workspace_bytes = workspace.size;
    memory = {states.data, units, partials.data, nullptr, report.data, nullptr};
  }
  static std::vector<loft::cuda::norm_item<loft::bf16_t>> items_of(loft::bf16_t const* first) {
    std::vector<loft::cuda::norm_item<loft::bf16_t>> result;
    for (int i = 0; i < units; ++i) result.push_back({first + i * share, share});
    return result;
  }
  void take_norms(gradient const& g) const {
    check(cudaSetDevice(number));
    check(cudaMemcpyAsync(values.data, g.data(), g.size() * sizeof g[0], cudaMemcpyHostToDevice, stream));
    check(loft::cuda::partial_norms(list.data, units, chunks, partials.data, where));
  }
  void decide(loft::gnmr<> const& controller) const {
    check(cudaSetDevice(number));
    check(loft::cuda::gnmr_step(controller, memory, where));
  }
  /// Whether units and report are those of the host.
  bool agrees(std::vector<loft::gnmr_unit> const& host, loft::gnmr_report const& right) const {
    check(cudaSetDevice(number));
    auto const mine = states.download();
    auto const found = report.download()[0];
    return std::memcmp(mine.data(), host.data(), sizeof mine[0] * units) == 0 && found.outcome == right.outcome &&
           found.triggered == right.triggered && found.active == right.active && found.evicted == right.evicted &&
           found.nonfinite == right.nonfinite && found.budget_hit == right.budget_hit;
  }
};

/// The halves of both ranks: noise, spikes in some units, and one NaN.
void make_gradients(int step, std::mt19937& random, gradient (&halves)[ranks]) {
  for (int i = 0; i < units; ++i) {
    float const size = random() % 20 == 0 ? 8.0f : 1.0f;
    for (auto& of_rank : halves)
      for (std::int64_t k = 0; k < share; ++k) {
        float const uniform = static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f;
        of_rank[static_cast<std::size_t>(i * share + k)] = static_cast<loft::bf16_t>(size * uniform);
      }
  }
  if (step == nan_step) halves[nan_rank][nan_unit * share + 123] = loft::bf16_t::from_bits(0x7fc0);
}

}  // namespace

int main() {
  if (!device::has(ranks)) return 2;
  ncclComm_t comms[ranks];
  int const device_of[ranks] = {0, 1};
  check(ncclCommInitAll(comms, ranks, device_of));

  loft::gnmr<> const controller{{.max_active = 2, .lock_steps = 2}};
  auto const on = [](int number) {
    check(cudaSetDevice(number));
    return rank_state{number};
  };
  rank_state const rank[ranks] = {on(0), on(1)};
  std::vector<loft::gnmr_unit> host(units);
  gradient halves[ranks] = {gradient(units * share), gradient(units * share)};
  std::mt19937 random{8};
  int same = 0, active = 0, budget_hits = 0;
  bool nan_seen = false;
  for (int step = 0; step < steps; ++step) {
    make_gradients(step, random, halves);
    for (int r = 0; r < ranks; ++r) rank[r].take_norms(halves[r]);
    check(ncclGroupStart());
    for (int r = 0; r < ranks; ++r)  // both doubles of each partial
      check(ncclAllReduce(rank[r].partials.data, rank[r].partials.data, 2 * units, ncclDouble, ncclSum, comms[r],
                          rank[r].stream));
    check(ncclGroupEnd());
    for (int r = 0; r < ranks; ++r) rank[r].decide(controller);

    std::vector<double> norms;
    for (int i = 0; i < units; ++i)
      norms.push_back(loft::norm_of(loft::partial_norm(halves[0].data() + i * share, share) +
                                    loft::partial_norm(halves[1].data() + i * share, share)));
    auto const report = controller.step(host, norms, [](int, double) {});
    bool const both = rank[0].agrees(host, report) && rank[1].agrees(host, report);
    same += both ? 1 : 0;
    active += report.active, budget_hits += report.budget_hit ? 1 : 0;
    if (step == nan_step) nan_seen = both && report.nonfinite == 1 && host[nan_unit].active;
  }
  std::printf(
      "%d units on two GPUs: %d of %d steps are the host's on both; %d unit-steps on the safe path, %d budget hits\n",
      units, same, steps, active, budget_hits);
  std::printf("a NaN on GPU %d: %s\n", nan_rank, nan_seen ? "seen by both in its step" : "NOT SEEN");
  for (auto& comm : comms) check(ncclCommDestroy(comm));
  return same == steps && active > 0 && nan_seen ? 0 : 1;
}
