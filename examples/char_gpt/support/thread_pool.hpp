// SPDX-License-Identifier: Apache-2.0
// A few threads that share out the pieces of one loop.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace char_gpt {

/// The number of pieces that every loop is cut into. It is fixed, so that the pieces, and with them the order of all
/// sums, are the same whatever the number of threads.
inline constexpr int pieces = 8;

struct range {
  std::int64_t begin, end;
};

/// The part of 0..count that belongs to one piece.
inline range part(std::int64_t count, int piece) noexcept {
  return {count * piece / pieces, count * (piece + 1) / pieces};
}

class thread_pool {
 public:
  explicit thread_pool(int threads) {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  thread_pool(thread_pool const&) = delete;
  thread_pool& operator=(thread_pool const&) = delete;

  ~thread_pool() {
    {
      std::lock_guard lock{mutex_};
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  /// Calls f(0) ... f(count - 1), each once, on any thread, and returns when all are done. f must not throw, and no
  /// two calls may write the same memory.
  template <class F> void run(int count, F const& f) {
    std::unique_lock lock{mutex_};
    function_ = &f;
    call_ = [](void const* function, int piece) { (*static_cast<F const*>(function))(piece); };
    next_ = 0;
    count_ = pending_ = count;
    if (count > 1) wake_.notify_all();
    while (next_ < count_) run_one(lock);
    done_.wait(lock, [this] { return pending_ == 0; });
  }

  /// f(range) on each of the `pieces` parts of 0..count.
  template <class F> void for_parts(std::int64_t count, F const& f) {
    run(pieces, [&](int piece) {
      if (range const r = part(count, piece); r.begin < r.end) f(r);
    });
  }

 private:
  void work() {
    std::unique_lock lock{mutex_};
    while (true) {
      wake_.wait(lock, [this] { return stop_ || next_ < count_; });
      if (stop_) return;
      run_one(lock);
    }
  }

  void run_one(std::unique_lock<std::mutex>& lock) {
    int const piece = next_++;
    lock.unlock();
    call_(function_, piece);
    lock.lock();
    if (--pending_ == 0) done_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> workers_;
  void const* function_ = nullptr;
  void (*call_)(void const*, int) = nullptr;
  int next_ = 0, count_ = 0, pending_ = 0;
  bool stop_ = false;
};

}  // namespace char_gpt
