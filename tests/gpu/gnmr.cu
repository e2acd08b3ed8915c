// SPDX-License-Identifier: Apache-2.0
// GNMR on a GPU against the host: after every step the same units in every byte, the same report, the same active units,
// over random and hostile sequences of norms; from partials; from a captured graph that takes the norms too; and the
// decisions that no version may change.
//
// nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude tests/gpu/gnmr.cu -o gnmr && ./gnmr
// Exit code 0 where all agrees, 1 where something differs, 2 without a GPU.
#include "loft/gpu/cuda.hpp"

#include <chrono>
#include <span>

#include "../stability/gnmr_frozen.hpp"
#include "../stability/gnmr_reference.hpp"
#include "launches.hpp"

namespace {

using namespace gpu_tests;
using doubles = std::vector<double>;
using bytes = std::vector<std::uint8_t>;

constexpr std::size_t guard = 64;  // bytes behind the flags of the active units

template <class Norm> Norm norm_from(double norm, std::mt19937_64& random) {
  if constexpr (std::is_same_v<Norm, double>) return norm;
  else return {norm * norm, random() % 64 == 0 ? 1.0 : 0.0};
}
double norm_on_host(double norm) { return norm; }
double norm_on_host(norm_partial const& partial) { return norm_of(partial); }

bool same_report(gnmr_report const& a, gnmr_report const& b) {
  return a.outcome == b.outcome && a.triggered == b.triggered && a.active == b.active && a.evicted == b.evicted &&
         a.nonfinite == b.nonfinite && a.budget_hit == b.budget_hit;
}

/// The controller on the device, with memory for its units.
template <class Controller, class Norm> struct on_device {
  Controller controller;
  std::size_t count;
  device::array<gnmr_unit> units;
  device::array<Norm> norms;
  device::array<double> risks;
  device::array<std::uint8_t> report, active;

  on_device(Controller const& c, std::size_t n)
      : controller{c},
        count{n},
        units{std::vector<gnmr_unit>(n)},
        norms{std::vector<Norm>(n)},
        risks{doubles(n)},
        report{bytes(sizeof(gnmr_report), 0xa5)},
        active{bytes(n + guard, 0xa5)} {}

  cuda::gnmr_memory<Norm> memory(bool with_risks) const {
    return {units.data,
            static_cast<std::int64_t>(count),
            norms.data,
            with_risks ? risks.data : nullptr,
            reinterpret_cast<gnmr_report*>(report.data),
            active.data};
  }
  void poison() {
    check(cudaMemsetAsync(report.data, 0xa5, sizeof(gnmr_report), stream()));
    check(cudaMemsetAsync(active.data, 0xa5, count + guard, stream()));
  }
  status step(std::vector<Norm> const& now, doubles const& user) {
    norms.upload(now.data(), count);
    if (!user.empty()) risks.upload(user.data(), count);
    poison();
    return cuda::gnmr_step(controller, memory(!user.empty()), {stream()});
  }
  gnmr_report get_report() const {
    gnmr_report result;
    bytes const raw = report.download(sizeof result);
    std::memcpy(static_cast<void*>(&result), raw.data(), sizeof result);
    return result;
  }
};

/// The host's step: report and flags.
template <class Controller>
gnmr_report step_on_host(Controller const& controller, std::vector<gnmr_unit>& units, doubles const& norms,
                         doubles const& user, bytes& flags) {
  flags.assign(units.size() + guard, 0xa5);
  return controller.step(units, norms, user, [&](int unit, double, gnmr_path path) {
    flags[static_cast<std::size_t>(unit)] = path == gnmr_path::safe ? 1 : 0;
  });
}

/// How many of the three (units, report, flags) differ.
template <class Controller, class Norm>
int differences(on_device<Controller, Norm> const& device, std::vector<gnmr_unit> const& units,
                gnmr_report const& report, bytes const& flags) {
  auto const got = device.units.download(units.size());
  int result = units.empty() || std::memcmp(got.data(), units.data(), units.size() * sizeof(gnmr_unit)) == 0 ? 0 : 1;
  result += same_report(device.get_report(), report) ? 0 : 1;
  return result + (device.active.download(units.size() + guard) == flags ? 0 : 1);
}

struct sequence {
  char const* kind;
  std::size_t units;
  int steps;
  std::uint64_t seed;
  bool with_risks;
};

/// Steps in which device and host differ; the host may have another controller.
template <class Norm, class Controller>
int differing_steps(Controller const& controller, Controller const& of_host, sequence const& s) {
  std::mt19937_64 random{s.seed};
  std::string const kind = s.kind;
  on_device<Controller, Norm> device{controller, s.units};
  std::vector<gnmr_unit> units(s.units);
  int differing = 0;
  for (int t = 0; t < s.steps; ++t) {
    std::vector<Norm> norms;
    doubles of_host_norms, user;
    for (std::size_t i = 0; i < s.units; ++i) {
      norms.push_back(norm_from<Norm>(test::norm_of_kind(kind, i, static_cast<std::size_t>(t), random), random));
      of_host_norms.push_back(norm_on_host(norms.back()));
      if (s.with_risks)
        user.push_back(random() % 50 == 0 ? std::nan("") : static_cast<double>(random() % 5) * 0.5 - 0.5);
    }
    bytes flags;
    status const outcome = device.step(norms, user);
    auto const report = step_on_host(of_host, units, of_host_norms, user, flags);
    differing += outcome != status::ok || differences(device, units, report, flags) != 0 ? 1 : 0;
  }
  return differing;
}

gnmr_options random_options(std::mt19937_64& random, std::size_t units) {
  double const thresholds[] = {0.4, 0.9, 1.0, 1.1, 1.5, 3.0};
  std::size_t const budgets[] = {0, 1, 3, units / 8, units / 4, units / 2, units, 2 * units};
  gnmr_options o;
  o.alpha = thresholds[random() % 6], o.alpha_warmup = thresholds[random() % 6], o.beta = thresholds[random() % 6];
  o.warmup_steps = static_cast<std::int64_t>(random() % 3 * 5), o.safe_steps = random() % 3 == 0 ? 4 : 0;
  o.window = 1 + static_cast<int>(random() % 16), o.max_active = static_cast<int>(budgets[random() % 8]);
  o.lock_steps = static_cast<int>(random() % 4);
  return o;
}

void compare(gnmr_options const& o, int policies, bool partials, sequence const& s) {
  current = std::string(s.kind) + ", " + std::to_string(s.units) + " units, policies " + std::to_string(policies) +
            ", seed " + std::to_string(s.seed) + ", budget " + std::to_string(o.max_active) +
            (partials ? ", partials" : "");
  auto const run = [&](auto const& c) {
    int const differing = partials ? differing_steps<norm_partial>(c, c, s) : differing_steps<double>(c, c, s);
    char text[80];
    std::snprintf(text, sizeof text, "%d of %d steps differ", differing, s.steps);
    expect(differing == 0, text, s.steps);
  };
  if (policies == 0) run(gnmr<>{o});
  else if (policies == 1) run(gnmr<exponential>{o, exponential{0.25}});
  else if (policies == 2) run(gnmr<windowed>{o, windowed{7}});
  else run(gnmr<arithmetic_mean, ratio_alone>{o});
}

void compare_sequences(std::size_t units, int repeats, int steps) {
  std::string const name = std::to_string(units) + " units, device against host";
  group const g{name.c_str()};
  std::mt19937_64 random{2606 + units};
  for (char const* const kind : test::sequence_kinds)
    for (int i = 0; i < repeats; ++i) {
      auto const o = random_options(random, units);
      int const policies = static_cast<int>(random() % 4);
      bool const partials = random() % 3 == 0, with_risks = random() % 3 == 0;
      compare(o, policies, partials, {kind, units, steps, random() % 100000, with_risks});
    }
}

/// The comparison has to notice a host with one place more, another lock, and another threshold.
void control() {
  group const g{"controls: a host with other options"};
  current = "control";
  gnmr_options const o{.max_active = 5};
  for (int which = 0; which < 3; ++which) {
    gnmr_options other = o;
    if (which == 0) other.max_active = 6;
    if (which == 1) other.lock_steps = 2;
    if (which == 2) other.alpha = 1.2;
    expect(differing_steps<double>(gnmr<>{o}, gnmr<>{other}, {"noise", 33, 50, 1, false}) > 10,
           "another controller on the host was not noticed");
  }
}

/// The controller's steps on the device, in the form that the frozen decisions ask for.
template <class Controller> struct stepped_on_device {
  Controller controller;
  std::uint64_t hash() const { return controller.hash(); }
  template <class Action> gnmr_report step(std::vector<gnmr_unit>& units, doubles const& norms, Action&& act) const {
    on_device<Controller, double> device{controller, units.size()};
    device.units.upload(units.data(), units.size());
    expect(device.step(norms, {}) == status::ok, "a step is refused");
    units = device.units.download(units.size());
    bytes const active = device.active.download(units.size());
    for (std::size_t i = 0; i < units.size(); ++i)
      if (active[i] == 1) act(static_cast<std::int64_t>(i), units[i].risk);
    return device.get_report();
  }
};
template <class Controller> std::uint64_t frozen_on_device(Controller const& c) {
  return test::hash_of_steps(stepped_on_device<Controller>{c});
}

void frozen() {
  group const g{"frozen decisions"};
  current = "frozen decisions";
  gnmr_options const o{.warmup_steps = 20, .max_active = 4, .lock_steps = 2};
  std::uint64_t const hash = frozen_on_device(gnmr<>{o}) ^ frozen_on_device(gnmr<exponential>{o}) ^
                             frozen_on_device(gnmr<windowed>{o, {7}}) ^
                             frozen_on_device(gnmr<arithmetic_mean, ratio_alone>{o});
  expect(hash == test::frozen_steps, "the device decides otherwise");
}

void refusals() {
  group const g{"refusals"};
  gnmr_options const good{};
  on_device<gnmr<>, double> device{gnmr<>{good}, 3};
  device.norms.upload(doubles{1, 2, 3}.data(), 3);
  auto const refused = [&](char const* what, gnmr_options const& o, cuda::gnmr_memory<double> m, status right) {
    current = what;
    device.poison();
    expect(cuda::gnmr_step(gnmr<>{o}, m, {stream()}) == right, "another status");
    check(cudaGetLastError());
    std::vector<gnmr_unit> const fresh(3);
    expect(std::memcmp(device.units.download(3).data(), fresh.data(), 3 * sizeof(gnmr_unit)) == 0,
           "units were changed");
    expect(device.report.download(sizeof(gnmr_report)) == bytes(sizeof(gnmr_report), 0xa5), "a report was written");
    expect(device.active.download(3 + guard) == bytes(3 + guard, 0xa5), "flags were written");
  };
  auto const m = device.memory(false);
  auto const with = [&](auto change) {
    auto result = m;
    change(result);
    return result;
  };
  gnmr_options o = good;
  o.alpha = 0, refused("alpha", o, m, status::invalid_alpha), o = good;
  o.beta = std::nan(""), refused("beta", o, m, status::invalid_beta), o = good;
  o.window = 17, refused("window", o, m, status::invalid_window), o = good;
  o.max_active = -1, refused("budget", o, m, status::invalid_budget), o = good;
  o.lock_steps = -1, refused("lock", o, m, status::invalid_lock), o = good;
  o.safe_steps = -1, refused("safe steps", o, m, status::invalid_warmup), o = good;
  refused("no units", o, with([](auto& x) { x.units = nullptr; }), status::null_pointer);
  refused("no norms", o, with([](auto& x) { x.norms = nullptr; }), status::null_pointer);
  refused("count below 0", o, with([](auto& x) { x.count = -1; }), status::negative_extent);
  refused("count of 2^31", o, with([](auto& x) { x.count = std::int64_t{1} << 31; }), status::too_many_units);
  refused("misaligned norms", o,
          with([](auto& x) { x.norms = reinterpret_cast<double const*>(reinterpret_cast<char const*>(x.norms) + 4); }),
          status::misaligned_pointer);
  current = "the control: a good step";
  expect(cuda::gnmr_step(gnmr<>{good}, m, {stream()}) == status::ok, "a good step is refused");
  expect(device.get_report().outcome == status::ok && device.units.download(3)[2].steps == 1,
         "a good step did nothing");
}

/// Norms and decisions of one training step in one captured graph, launched again with other gradients.
void captured_graph() {
  group const g{"captured graph, norms and step"};
  current = "captured graph";
  constexpr int tensors = 40, replays = 200;
  std::vector<std::int64_t> lengths, starts;
  std::int64_t total = 0;
  for (int i = 0; i < tensors; ++i) {
    lengths.push_back(i == 0 ? 0 : (i % 9 == 8 ? 40000 + i : 1 + (i * 797) % 3000));
    starts.push_back(total);
    total += (lengths.back() + 7) / 8 * 8;
  }
  device::array<bf16_t> const values{std::vector<bf16_t>(static_cast<std::size_t>(total))};
  std::vector<cuda::norm_item<bf16_t>> list;
  for (int i = 0; i < tensors; ++i) {
    auto const at = static_cast<std::size_t>(i);
    list.push_back({values.data + starts[at], lengths[at]});
  }
  std::int64_t const chunks = cuda::plan_norms(list.data(), tensors);
  device::array<cuda::norm_item<bf16_t>> const items{list};
  std::int64_t const size = cuda::norm_workspace_bytes(tensors, chunks);
  device::array<std::uint8_t> const workspace{bytes(static_cast<std::size_t>(size))};
  cuda::context where{stream()};
  where.workspace = workspace.data, where.workspace_bytes = size;
  gnmr_options const o{.max_active = 4, .lock_steps = 2};
  on_device<gnmr<>, norm_partial> device{gnmr<>{o}, tensors};

  cudaGraph_t graph{};
  cudaGraphExec_t executable{};
  check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
  expect(cuda::partial_norms(items.data, tensors, chunks, device.norms.data, where) == status::ok, "norms are refused");
  expect(cuda::gnmr_step(device.controller, device.memory(false), {stream()}) == status::ok, "the step is refused");
  check(cudaStreamEndCapture(stream(), &graph));
  check(cudaGraphInstantiate(&executable, graph, 0));

  std::mt19937_64 random{40};
  std::normal_distribution<float> normal;
  std::vector<gnmr_unit> units(tensors);
  long active = 0, nonfinite = 0;
  for (int t = 0; t < replays; ++t) {
    std::vector<bf16_t> gradients;
    for (std::int64_t i = 0; i < total; ++i)
      gradients.push_back(bf16_t::from_bits(static_cast<std::uint16_t>(random() & 0x807f) | 0x3f00));
    doubles norms;
    for (int i = 0; i < tensors; ++i) {
      auto const at = static_cast<std::size_t>(i);
      auto* const first = gradients.data() + starts[at];
      float const factor = random() % 10 == 0 ? 30.0f : 1.0f + 0.01f * normal(random);
      for (std::int64_t k = 0; k < lengths[at]; ++k)
        first[k] = static_cast<bf16_t>(static_cast<float>(first[k]) * factor);
      if (lengths[at] > 0 && random() % 30 == 0) first[lengths[at] / 2] = bf16_t::from_bits(0x7fc0);
      norms.push_back(norm_of(partial_norm(first, lengths[at])));
    }
    check(cudaMemcpyAsync(values.data, gradients.data(), gradients.size() * sizeof(bf16_t), cudaMemcpyHostToDevice,
                          stream()));
    device.poison();
    check(cudaGraphLaunch(executable, stream()));
    bytes flags;
    auto const report = step_on_host(device.controller, units, norms, {}, flags);
    active += report.active, nonfinite += report.nonfinite;
    expect(differences(device, units, report, flags) == 0, "a launch of the graph differs");
  }
  expect(active > replays && nonfinite > 10, "too little happens in the sequence");
  check(cudaGraphExecDestroy(executable));
  check(cudaGraphDestroy(graph));
}

/// Microseconds a step, for the reader; not a check.
void cost() {
  for (std::size_t const n : {std::size_t{100}, std::size_t{10000}, std::size_t{20000}}) {
    for (int const budget : {static_cast<int>(n), static_cast<int>(n / 4)}) {
      gnmr_options const o{.alpha = 0.4, .max_active = budget};
      on_device<gnmr<>, double> device{gnmr<>{o}, n};
      std::mt19937_64 random{n};
      doubles norms;
      for (std::size_t i = 0; i < n; ++i) norms.push_back(test::norm_of_kind("noise", i, 0, random));
      device.norms.upload(norms.data(), n);
      auto const steps = [&](int count) {
        for (int i = 0; i < count; ++i)
          if (cuda::gnmr_step(device.controller, device.memory(false), {stream()}) != status::ok) std::exit(1);
        check(cudaStreamSynchronize(stream()));
      };
      steps(20);
      auto const start = std::chrono::steady_clock::now();
      steps(100);
      std::chrono::duration<double, std::micro> const time = std::chrono::steady_clock::now() - start;
      std::printf("%zu units, %d places: %.1f us a step\n", n, budget, time.count() / 100);
    }
  }
}

}  // namespace

int main() {
  if (!device::has()) return 2;
  auto const start = std::chrono::steady_clock::now();
  for (std::size_t const units : {0, 1, 3, 33}) compare_sequences(units, 3, 200);
  compare_sequences(1000, 3, 200);
  for (std::size_t const units : {1023, 1024, 1025, 2049}) compare_sequences(units, 1, 60);
  compare_sequences(20000, 1, 40);
  control();
  frozen();
  refusals();
  captured_graph();
  cost();
  std::chrono::duration<double> const time = std::chrono::steady_clock::now() - start;
  std::printf("%.1f s\n", time.count());
  return report();
}
