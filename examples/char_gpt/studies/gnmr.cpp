// SPDX-License-Identifier: Apache-2.0
// The study of GNMR: kept activations in few bits, moved to 8 bits layer by layer.
#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "char_gpt/report/files.hpp"
#include "char_gpt/report/results.hpp"
#include "char_gpt/report/tables.hpp"
#include "char_gpt/studies/studies.hpp"
#include "char_gpt/studies/trials.hpp"

namespace char_gpt {
namespace {

// Symmetric integers of fewer bits than the library's: -3 ... 3 and -1 ... 1.
struct int3 {
  static constexpr loft::format_spec spec{1, 1, 0, loft::specials::none, true, true, true};
};
struct int2 {
  static constexpr loft::format_spec spec{1, 0, 1, loft::specials::none, true, true, true};
};

/// The values of a token, up to 512 of them, share a float.
template <class Element> struct token_wise {
  using element = Element;
  using scale = loft::fp32;
  static constexpr loft::block_shape shape{1, 512};
};

/// The forward pass and Dgrad calculate in float; what is kept of the activations is in few bits.
template <class Element> struct keeping {
  using token = loft::operand<token_wise<Element>>;

  loft::product<> fprop{}, dgrad{};
  loft::product<loft::none, loft::stored<token>> wgrad{};
  token keeps{};
};

constexpr loft::plan<keeping<loft::int8>> eight;
constexpr loft::plan<keeping<loft::int4>> four;
constexpr loft::plan<keeping<int3>> three;
constexpr loft::plan<keeping<int2>> two;

planned_linears<float> layers_of(int bits) {
  switch (bits) {
    case 2:
      return planned_linears<float>{two};
    case 3:
      return planned_linears<float>{three};
    case 4:
      return planned_linears<float>{four};
    default:
      return planned_linears<float>{eight};
  }
}

/// One kind of training, and its results by seed.
struct kind {
  std::string name;
  int bits = 8;
  control who{};
  std::vector<result> results{};
};

double perplexity(result const& r) { return std::exp(r.curve.back().validation_loss); }

template <class F> mean_and_deviation summary_of(std::vector<result> const& results, F const& f) {
  std::vector<double> values;
  for (auto const& r : results) values.push_back(f(r));
  return summary(values);
}

std::string gnmr_name(loft::gnmr_options const& o) {
  std::ostringstream out;
  out << "gnmr " << o.alpha << ' ' << o.beta << " x" << o.max_active;
  return out.str();
}

/// The kinds of one number of bits. The random one comes after the GNMR whose places it takes.
std::vector<kind> kinds_of(options const& o, int bits) {
  int const units = o.shape.layers * linears_per_layer, quarter = (units + 3) / 4;
  std::vector<kind> kinds{{"fixed", bits}};
  auto const add = [&](double alpha, double beta, int budget) {
    loft::gnmr_options const how{.alpha = alpha, .beta = beta, .max_active = budget};
    kinds.push_back({gnmr_name(how), bits, {.who = chooser::gnmr, .options = how}});
  };
  add(3, 2, quarter);
  add(2, 1.5, quarter);
  add(1.5, 1.3, 1);
  add(1.5, 1.3, units);
  add(1.5, 1.3, quarter);
  kinds.push_back({"random", bits, {.who = chooser::random}});
  add(0.9, 1.3, quarter);
  add(0.4, 1.3, quarter);
  kinds.push_back({"random", bits, {.who = chooser::random}});
  kinds.push_back({"largest x" + std::to_string(quarter),
                   bits,
                   {.who = chooser::largest, .options = {.max_active = quarter}, .watched = o.steps / 10}});
  return kinds;
}

/// As many places at each step as GNMR took.
std::vector<int> places_of(result const& r) {
  std::vector<int> places;
  for (auto const& step : r.steps) places.push_back(step.active);
  return places;
}

void train_kinds(options o, split_text const& text, thread_pool& pool, std::vector<kind>& kinds) {
  auto const first_seed = o.seed;
  for (int i = 0; i < o.seeds; ++i) {
    o.seed = first_seed + i;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      control who = kinds[k].who;
      who.seed = static_cast<std::uint64_t>(o.seed);
      if (who.who == chooser::random) who.places = places_of(kinds[k - 1].results.back());
      trainee const what{kinds[k].name, layers_of(kinds[k].bits), layers_of(8).at({}, 0), who};
      kinds[k].results.push_back(train(o, text, what, pool));
    }
  }
}

std::string table_of(std::vector<kind> const& kinds, std::vector<kind> const& base) {
  std::vector<row> rows{{"kept in", "", "perplexity", "deviation", "against 8 bits", "triggered", "on 8 bits", "hits"}};
  double const reference = summary_of(base.front().results, perplexity).mean;
  for (auto const* some : {&base, &kinds})
    for (auto const& k : *some) {
      auto const ppl = summary_of(k.results, perplexity);
      auto const triggered = [](result const& r) {
        double count = 0;
        for (auto const& step : r.steps) count += step.triggered;
        return r.steps.empty() ? 0 : count / static_cast<double>(r.steps.size() * r.units);
      };
      bool const is_gnmr = k.who.who == chooser::gnmr, chooses = k.who.who != chooser::none;
      auto const percent = [&](bool shown, auto const& f) {
        return shown ? fixed(100 * summary_of(k.results, f).mean, 3) + " %" : std::string{"-"};
      };
      rows.push_back({std::to_string(k.bits) + " bits", k.name, fixed(ppl.mean, 3), fixed(ppl.deviation, 3),
                      fixed(100 * (ppl.mean / reference - 1), 2) + " %", percent(is_gnmr, triggered),
                      percent(chooses, recovered_share), percent(is_gnmr, budget_hit_share)});
    }
  return aligned(rows);
}

std::string csv_of(std::vector<kind> const& kinds, std::int64_t first_seed) {
  std::ostringstream out;
  out << std::setprecision(9);
  for (auto const& k : kinds)
    for (std::size_t i = 0; i < k.results.size(); ++i) {
      auto const& r = k.results[i];
      out << k.bits << ',' << k.name << ',' << first_seed + static_cast<std::int64_t>(i) << ','
          << r.curve.back().validation_loss << ',' << perplexity(r) << ',' << recovered_share(r) << ','
          << budget_hit_share(r) << '\n';
    }
  return out.str();
}

}  // namespace

void study_gnmr(options const& o, split_text const& text, thread_pool& pool, std::ostream& out) {
  std::vector<kind> base{{"fixed", 8}};
  train_kinds(o, text, pool, base);
  std::string rows = "bits,kind,seed,validation_loss,perplexity,recovered_share,budget_hit_share\n";
  rows += csv_of(base, o.seed);
  std::vector<result> shown{base.front().results.front()};
  shown.front().recipe = "8 bits";
  for (int const bits : o.bits) {
    auto kinds = kinds_of(o, bits);
    train_kinds(o, text, pool, kinds);
    out << table_of(kinds, base) << '\n' << std::flush;
    rows += csv_of(kinds, o.seed);
    for (std::size_t const k : std::array<std::size_t, 5>{0, 5, 6, 8, 10}) {
      shown.push_back(kinds[k].results.front());
      shown.back().recipe = std::to_string(bits) + (k == 0 ? " bits" : " " + kinds[k].name);
    }
  }
  out << "Perplexity: of a byte, mean and deviation over " << o.seeds
      << " seeds. Triggered: unit-steps with R > 1; on 8 bits: unit-steps that kept 8 bits;\n"
         "hits: steps with more candidates than the budget. xN: at most N units; random: as many units at each step as "
         "the line\nabove it, at random; largest: from a tenth of the run on, the units with the largest gradients.\n";
  if (!o.csv.empty()) write_file(o.csv, rows);
  if (!o.plot.empty()) write_file(o.plot, plot(shown));
}

}  // namespace char_gpt
