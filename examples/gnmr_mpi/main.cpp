// SPDX-License-Identifier: Apache-2.0
// Data-parallel training with GNMR on MPI: every rank takes the gradients of its share of a batch, all ranks take the
// same decisions, and a killed run that goes on from its checkpoint ends with the bits of one that was never killed.
//
//   mpirun -n 4 gnmr_mpi                                     40 steps
//   mpirun -n 4 gnmr_mpi --nan-rank 2                        a NaN in one gradient of one rank
//   mpirun -n 4 gnmr_mpi --state run.state --stop-at 27      killed at step 27; the checkpoint is of step 20
//   mpirun -n 4 gnmr_mpi --state run.state --resume          the rest of it
#include <mpi.h>

#include <array>
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "char_gpt/model/model.hpp"
#include "char_gpt/report/files.hpp"
#include "char_gpt/training/adamw.hpp"
#include "char_gpt/training/text.hpp"
#include "loft/gnmr.hpp"
#include "loft/recipes.hpp"

namespace {

using namespace char_gpt;

constexpr model_shape shape{.layers = 2, .width = 32, .heads = 2, .context = 16, .batch = 8};
constexpr int save_every = 10, nan_step = 15;
constexpr loft::gnmr_options thresholds{.alpha = 1.02, .beta = 1.5, .max_active = 2};
constexpr loft::recipes::mxfp4 low_cost;
constexpr loft::recipes::mxfp8 safe;

struct options {
  int steps = 40, stop_at = -1, nan_rank = -1, odd_rank = -1;
  std::string state;
  bool resume = false;
};

struct place {
  int rank = 0, ranks = 1;
};

/// Everything that a rank goes on from. All ranks hold the same.
struct state {
  model<float> gpt;
  adamw optimizer;
  loft::gnmr<> controller{thresholds};
  std::vector<loft::gnmr_unit> units;
  int step = 0;

  state(model_shape const& mine, thread_pool& pool)
      : gpt{mine, linear<float>{low_cost}, pool, 1},
        optimizer{gpt.tensors(), gpt.parameters().size(), 0.1},
        units(gpt.linears().size()) {}

  void take_paths() {
    for (std::size_t i = 0; i < units.size(); ++i)
      gpt.use(i, units[i].active ? linear<float>{safe} : linear<float>{low_cost});
  }
};

void require(loft::status outcome) {
  if (outcome != loft::status::ok) throw std::runtime_error{loft::message(outcome)};
}

// ---- checkpoints: the steps, taken and of AdamW, the parameters, AdamW's moments, GNMR's state ----

std::string saved(state& s) {
  std::array const steps{s.step, s.optimizer.steps()};
  std::string bytes{reinterpret_cast<char const*>(steps.data()), sizeof(steps)};
  for (auto const values : {s.gpt.parameters(), s.optimizer.means(), s.optimizer.squares()})
    bytes.append(reinterpret_cast<char const*>(values.data()), values.size_bytes());
  std::vector<std::byte> units(static_cast<std::size_t>(loft::state_bytes(static_cast<std::int64_t>(s.units.size()))));
  require(s.controller.save(s.units, units));
  return bytes.append(reinterpret_cast<char const*>(units.data()), units.size());
}

void restore(state& s, std::string const& bytes) {
  if (bytes.size() != saved(s).size()) throw std::runtime_error{"the checkpoint is of another model, or cut off"};
  std::array<int, 2> steps;
  std::memcpy(steps.data(), bytes.data(), sizeof(steps));
  std::size_t at = sizeof(steps);
  for (auto const values : {s.gpt.parameters(), s.optimizer.means(), s.optimizer.squares()}) {
    std::memcpy(values.data(), bytes.data() + at, values.size_bytes());
    at += values.size_bytes();
  }
  require(s.controller.restore(std::as_bytes(std::span{bytes}.subspan(at)), s.units));
  s.step = steps[0];
  s.optimizer.resume_at(steps[1]);
  s.take_paths();
}

/// Rank 0 reads, all receive.
std::string read_state(std::string const& path, place p) {
  std::string bytes;
  if (p.rank == 0) {
    std::ifstream file{path, std::ios::binary};
    if (!file) throw std::runtime_error{"cannot read '" + path + "'"};
    bytes.assign(std::istreambuf_iterator<char>{file}, {});
  }
  int size = static_cast<int>(bytes.size());
  MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
  bytes.resize(static_cast<std::size_t>(size));
  MPI_Bcast(bytes.data(), size, MPI_BYTE, 0, MPI_COMM_WORLD);
  return bytes;
}

// ---- one step ----

/// Sums over ranks, in place: every rank then holds the same bits.
template <class T> void sum_over_ranks(T* values, std::size_t count, MPI_Datatype type) {
  MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), type, MPI_SUM, MPI_COMM_WORLD);
}

/// The mean gradient of all ranks, on each of them; returns the mean loss.
double take_gradients(state& s, batch_of_text const& batch, options const& o, place p) {
  auto const rows = batch.tokens.size() / static_cast<std::size_t>(p.ranks),
             from = rows * static_cast<std::size_t>(p.rank);
  double loss =
      s.gpt.forward(batch.tokens.data() + from, batch.targets.data() + from, static_cast<std::uint64_t>(s.step));
  s.gpt.backward();
  auto const gradients = s.gpt.gradients();
  if (p.rank == o.nan_rank && s.step == nan_step)
    gradients[static_cast<std::size_t>(s.gpt.linears()[3].begin)] = std::numeric_limits<float>::quiet_NaN();
  sum_over_ranks(gradients.data(), gradients.size(), MPI_FLOAT);
  sum_over_ranks(&loss, 1, MPI_DOUBLE);
  for (auto& g : gradients) g /= static_cast<float>(p.ranks);
  return loss / p.ranks;
}

/// The norms of the units: each rank takes the partials of its share of every unit, and their sum is the whole.
std::vector<double> take_norms(state& s, options const& o, place p) {
  std::vector<loft::norm_partial> partials;
  for (auto const& unit : s.gpt.linears()) {
    std::int64_t const begin = unit.size * p.rank / p.ranks, end = unit.size * (p.rank + 1) / p.ranks;
    partials.push_back(loft::partial_norm(s.gpt.gradients().data() + unit.begin + begin, end - begin));
  }
  static_assert(sizeof(loft::norm_partial) == 2 * sizeof(double));
  sum_over_ranks(&partials.data()->sum_of_squares, 2 * partials.size(), MPI_DOUBLE);
  std::vector<double> norms(partials.size());
  require(loft::norms_of(partials, norms));
  if (p.rank == o.odd_rank) norms[0] *= 1.5;  // what must not happen, to show that it is found
  return norms;
}

/// Whether all ranks hold the same controller and the same parameters.
bool all_agree(state& s) {
  std::uint64_t hash = loft::state_hash(s.units);
  for (float const p : s.gpt.parameters()) hash = hash * 0x100000001b3u ^ loft::bit_cast<std::uint32_t>(p);
  std::array<std::uint64_t, 2> extremes{hash, ~hash};  // the largest hash, and the complement of the smallest
  MPI_Allreduce(MPI_IN_PLACE, extremes.data(), 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  return extremes[0] == ~extremes[1];
}

double take_step(state& s, batch_of_text const& batch, options const& o, place p, thread_pool& pool) {
  double const loss = take_gradients(s, batch, o, p);
  auto const norms = take_norms(s, o, p);
  auto const report = s.controller.step(s.units, norms, [](int, double) {});
  require(report.outcome);
  int seen = report.nonfinite > 0 ? 1 : 0;
  sum_over_ranks(&seen, 1, MPI_INT);
  if (seen > 0 && p.rank == 0)
    std::printf("step %d: a gradient that is not finite, seen by %d of %d ranks; no update\n", s.step, seen, p.ranks);
  double const norm =
      loft::norm_of(loft::partial_norm(s.gpt.gradients().data(), static_cast<std::int64_t>(s.gpt.gradients().size())));
  if (norm < std::numeric_limits<double>::infinity())
    s.optimizer.step(s.gpt.parameters(), s.gpt.gradients(), loft::clip_factor(norm, 1),
                     learning_rate(3e-3, s.step, o.steps), pool);
  s.take_paths();
  ++s.step;
  return loss;
}

// ---- the run ----

/// Sentences of a few words: something to learn that needs no file.
std::vector<std::uint8_t> made_text() {
  std::mt19937 generator{1};
  std::string text;
  while (text.size() < 20000) text += std::array{"tick ", "tock ", "the clock ", "strikes\n"}[generator() % 4];
  return {text.begin(), text.end()};
}

/// The exit code: 3 where the ranks disagree.
int train(options const& o, place p) {
  thread_pool pool{1};
  model_shape mine = shape;
  mine.batch /= p.ranks;
  state s{mine, pool};
  if (o.resume) restore(s, read_state(o.state, p));
  auto const text = made_text();
  random_batches batches{text, shape.batch_sizes(), 1};
  for (int i = 0; i < s.step; ++i) batches.next();  // those of the steps before the checkpoint
  double loss = 0;
  while (s.step < o.steps) {
    if (s.step == o.stop_at && p.rank == p.ranks - 1) std::raise(SIGKILL);
    loss = take_step(s, batches.next(), o, p, pool);
    if (!all_agree(s)) {
      if (p.rank == 0) std::fprintf(stderr, "gnmr_mpi: step %d: the ranks disagree\n", s.step - 1);
      return 3;
    }
    if (!o.state.empty() && s.step % save_every == 0 && p.rank == 0) write_file(o.state, saved(s));
  }
  std::uint64_t active = 0;
  for (auto const& unit : s.units) active += unit.activated;
  if (p.rank == 0)
    std::printf("%d steps, loss %.9g, %llu unit-steps on the safe path, state %016llx\n", s.step, loss,
                static_cast<unsigned long long>(active),
                static_cast<unsigned long long>(std::hash<std::string>{}(saved(s))));
  return 0;
}

int run(int argc, char** argv) {
  options o;
  place p;
  MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &p.ranks);
  CLI::App app{"Data-parallel training with GNMR: all ranks take the same decisions.", "gnmr_mpi"};
  app.option_defaults()->always_capture_default();
  app.add_option("--steps", o.steps, "training steps")->check(CLI::Range(1, 100000));
  app.add_option("--nan-rank", o.nan_rank, "plant a NaN in a gradient of this rank");
  app.add_option("--odd-rank", o.odd_rank, "give this rank another norm: the run must fail");
  app.add_option("--stop-at", o.stop_at, "kill a rank at this step");
  auto* const file = app.add_option("--state", o.state, "write a checkpoint to this file every 10 steps");
  app.add_flag("--resume", o.resume, "go on from that checkpoint")->needs(file);
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& error) {
    return p.rank == 0 ? app.exit(error) : error.get_exit_code();
  }
  if (shape.batch % p.ranks != 0)
    throw std::runtime_error{"8 sequences cannot be shared out evenly: use 1, 2, 4 or 8 ranks"};
  return train(o, p);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    int const code = run(argc, argv);
    MPI_Finalize();
    return code;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "gnmr_mpi: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}
