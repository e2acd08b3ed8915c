// SPDX-License-Identifier: Apache-2.0
// One line on a terminal that says how far training is. Nothing where stderr is not a terminal.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace char_gpt {

class progress {
 public:
  progress(std::string recipe, int steps, std::int64_t tokens_per_step, bool quiet)
      : recipe_{std::move(recipe)}, steps_{steps}, tokens_{tokens_per_step}, shown_{!quiet && isatty(2) == 1} {}
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress() {
    if (shown_) std::fputs("\r\033[K", stderr);  // back to the start, and clear
  }

  void show(int step, double loss) {
    auto const now = clock::now();
    if (!shown_ || (now - last_ < std::chrono::milliseconds{200} && step < steps_)) return;
    last_ = now;
    double const seconds = std::chrono::duration<double>(now - start_).count();
    std::fprintf(stderr, "\r%s  step %d of %d  loss %.3f  %.0f tokens/s  %.0f s left\033[K", recipe_.c_str(), step,
                 steps_, loss, static_cast<double>(step * tokens_) / seconds, seconds / step * (steps_ - step));
    std::fflush(stderr);
  }

 private:
  using clock = std::chrono::steady_clock;

  std::string recipe_;
  int steps_;
  std::int64_t tokens_;
  bool shown_;
  clock::time_point start_ = clock::now(), last_ = start_;
};

}  // namespace char_gpt
