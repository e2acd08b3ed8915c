// SPDX-License-Identifier: Apache-2.0
// The study of block shapes: MXFP4 in rows of 32 against square tiles, which read the same in both directions.
#include <algorithm>
#include <array>
#include <loft/recipes.hpp>
#include <loft/train.hpp>
#include <ostream>

#include "char_gpt/studies/studies.hpp"
#include "char_gpt/studies/trials.hpp"
#include "char_gpt/support/errors.hpp"

namespace char_gpt {
namespace {

/// Truncation-free scales and stochastic gradients, queries and keys in MXFP8, as arXiv 2607.24953 has them. `Weight` is
/// the format of the weights, `Other` that of the rest.
template <class Weight, class Other> struct blocks_recipe {
  using weight = loft::operand<Weight, loft::ceil_scale>;
  using activation = loft::operand<Other, loft::ceil_scale>;
  using gradient = loft::operand<Other, loft::ceil_scale, loft::stochastic<>>;

  loft::product<activation, weight> fprop{};
  loft::product<gradient, weight> dgrad{};
  loft::product<gradient, activation> wgrad{};
};

/// How the copies of the trained weights along rows and along columns differ.
struct mismatch {
  double share = 0, relative = 0;
};

template <class Weight> mismatch mismatch_of(model<float>& gpt, int width) {
  using how = loft::operand<Weight, loft::ceil_scale>;
  loft::transposition_mismatch total;
  int number = 0;
  for (auto const& unit : gpt.linears()) {
    int const role = number++ % linears_per_layer;
    int const in = role == 3 ? 4 * width : width, out = std::array{3, 1, 4, 1}[static_cast<std::size_t>(role)] * width;
    loft::matrix_view<float const> const w{gpt.parameters().data() + unit.begin, out, in, in};
    std::vector<float> rows(static_cast<std::size_t>(w.rows * w.cols)), cols(rows.size());
    loft::matrix_view<float> const along_rows{rows.data(), out, in, in}, along_cols{cols.data(), out, in, in};
    loft::transposition_mismatch one;
    require_ok(loft::fake_quantize(w, along_rows, how{}));
    require_ok(loft::fake_quantize(loft::transposed(w), loft::transposed(along_cols), how{}));
    require_ok(loft::compare_transposition(along_rows, along_cols, one));
    total.elements += one.elements, total.different += one.different;
    total.signal += one.signal, total.difference += one.difference;
  }
  return {total.share(), total.relative()};
}

template <class Weight, class Other>
trial trial_of(options const& o, std::string const& blocks, std::string const& on, double rate) {
  trial t{
      {blocks, on, spelt(rate)},
      keep_plan(blocks, loft::plan<blocks_recipe<Weight, Other>, loft::recipes::mxfp8>{.except = {.query_key = true}}),
      o};
  t.how.learning_rate = rate;
  t.measure = [width = o.shape.width](model<float>& gpt) {
    auto const m = mismatch_of<Weight>(gpt, width);
    return std::vector<double>{m.share, m.relative};
  };
  return t;
}

template <int N> void add_squares(std::vector<trial>& trials, options const& o, double rate) {
  using rows = loft::mxfp4;
  using tiles = loft::square<rows, N>;
  std::string const name = std::to_string(N) + " x " + std::to_string(N);
  trials.push_back(trial_of<tiles, tiles>(o, name, "all operands", rate));
  trials.push_back(trial_of<tiles, rows>(o, name, "weights", rate));
}

std::string measured(trial const& t, std::size_t which) {
  std::vector<double> values;
  for (auto const& r : t.results) values.push_back(100 * r.measured[which]);
  return fixed(summary(values).mean, which == 0 ? 1 : 2) + " %";
}

}  // namespace

void study_blocks(options const& o, split_text const& text, std::ostream& out) {
  std::vector<trial> trials;
  std::vector<double> const rates{o.learning_rate, o.learning_rate / 3};
  for (double const rate : rates) {
    trial base{{"fp32", "nothing", spelt(rate)}, find_recipe("fp32", "the study"), o};
    base.how.learning_rate = rate;
    trials.push_back(base);
    trials.push_back(trial_of<loft::mxfp4, loft::mxfp4>(o, "1 x 32", "all operands", rate));
    add_squares<8>(trials, o, rate);
    add_squares<16>(trials, o, rate);
    add_squares<32>(trials, o, rate);
    add_squares<64>(trials, o, rate);
  }
  train_all(o, text, trials);
  std::vector<row> rows{
      {"blocks", "on", "learning rate", "validation loss", "gap to fp32", "values that differ", "squared difference"}};
  std::vector<dots> shown;
  trial const* base = nullptr;
  for (auto const& t : trials) {
    bool const is_base = t.what.name == "fp32";
    if (is_base) base = &t;
    rows.push_back({t.labels[0], t.labels[1], t.labels[2], mean_of(final_losses(t), 4),
                    is_base ? "-" : mean_of(gaps(t, *base), 2) + " %", is_base ? "-" : measured(t, 0),
                    is_base ? "-" : measured(t, 1)});
    if (!is_base) shown.push_back({t.labels[0] + ", " + t.labels[1] + ", " + t.labels[2], gaps(t, *base)});
  }
  out << aligned(rows) << "Mean and deviation over " << o.seeds << " seeds of " << o.steps
      << " steps. Differ: the share of the trained weights whose value along the rows is not that along\nthe columns; "
         "squared difference: of the two, relative to the weights.\n";
  if (!o.csv.empty()) write_file(o.csv, csv_of({"blocks", "on", "learning_rate"}, trials));
  if (!o.plot.empty())
    write_file(o.plot, plot_dots("Rows against square tiles, MXFP4", "gap to fp32, per cent", shown));
}

}  // namespace char_gpt
