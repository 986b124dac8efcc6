// A fixed team of threads for one engine. The calling thread is one of the team.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace edgelora {

// Runs one task, a fixed sequence of phases, on as many of the threads as are awake.
//
// Each thread begins a phase with its own share of the units, which lie side by side in memory,
// and then takes what the others have not begun. A phase ends when all its units are done, not
// when all threads have arrived: a thread that the system has put aside holds nobody up unless it
// is in the middle of a unit, and when it comes back it finds the phases it missed finished. On a
// machine that does other things too this is the difference between one late step and a delay at
// every barrier.
class ThreadPool {
 public:
  class Team {
   public:
    int index() const { return index_; }

    class Counter;
    // A phase that this thread has nothing more to do in, while others may.
    struct Pending {
      const Counter* done = nullptr;
      uint32_t count = 0;
    };

    // Calls f(unit) for each unit in [0, count), every unit on exactly one thread; returns when
    // all are done. Every thread must make the same sequence of calls.
    template <typename F>
    void each(int count, F&& f) {
      wait(begin(count, f));
    }
    // The same, but returns as soon as all units are begun; `wait` for what it returns, before
    // anything that needs them and before the next phase ends.
    template <typename F>
    Pending begin(int count, F&& f) {
      Counter* const counters = counters_;
      counters_ += num_threads_ + 1;
      uint32_t mine = 0;
      for (int i = 0; i < num_threads_; i++) {
        const int owner = (index_ + i) % num_threads_;
        const int first = share_begin(count, owner);
        const auto size = static_cast<uint32_t>(share_begin(count, owner + 1) - first);
        for (uint32_t at; (at = counters[owner].add(task_, 1, size)) < size; mine++)
          f(first + static_cast<int>(at));
      }
      Counter& done = counters[num_threads_];
      if (mine > 0) done.add(task_, mine, static_cast<uint32_t>(count));
      return {&done, static_cast<uint32_t>(count)};
    }
    void wait(const Pending& phase) const {
      if (phase.done != nullptr && phase.done->value(task_) < phase.count) spin(phase);
    }

    // A count that starts from 0 with every task; so nobody has to set it back.
    class alignas(64) Counter {
     public:
      uint32_t value(uint32_t task) const {
        return of(task, state_.load(std::memory_order_acquire));
      }
      // Adds, unless the count has reached `limit`; returns the count before.
      uint32_t add(uint32_t task, uint32_t amount, uint32_t limit) {
        uint64_t state = state_.load(std::memory_order_relaxed);
        for (;;) {
          const uint32_t before = of(task, state);
          if (before >= limit) return before;
          const uint64_t next = uint64_t{task} << 32 | (before + amount);
          if (state_.compare_exchange_weak(state, next, std::memory_order_acq_rel)) return before;
        }
      }
      void clear() { state_.store(0, std::memory_order_relaxed); }

     private:
      static uint32_t of(uint32_t task, uint64_t state) {
        return state >> 32 == task ? static_cast<uint32_t>(state) : 0;
      }
      std::atomic<uint64_t> state_{0};
    };

   private:
    friend class ThreadPool;
    Team(ThreadPool& pool, int index)
        : counters_(pool.counters_.get()),
          task_(pool.task_number_),
          index_(index),
          num_threads_(pool.num_active_.load(std::memory_order_relaxed)) {}
    int share_begin(int count, int owner) const {
      return static_cast<int>(int64_t{count} * owner / num_threads_);
    }
    void spin(const Pending& phase) const;

    Counter* counters_;  // of the next phase: one for each thread's share, then that of units done
    const uint32_t task_;
    const int index_;
    const int num_threads_;
  };

  // `max_phases`: most calls of `each` in one task.
  ThreadPool(int num_threads, int max_phases);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // `task` must not throw.
  void run(const std::function<void(Team&)>& task);

  // From the next task on the first `count` threads work, 1 or more; the others sleep, and nothing
  // wakes them. Only between tasks.
  void set_active(int count);
  int num_active() const { return num_active_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kClosed = 1u << 31;

  void work(int index);
  void stop();
  // Returns once thread `index` is to work on a task that `seen` does not count yet, or the pool
  // stops.
  uint64_t wait_for_task(int index, uint64_t seen);

  const size_t num_counters_;
  const std::unique_ptr<Team::Counter[]> counters_;
  const std::function<void(Team&)>* task_ = nullptr;
  uint32_t task_number_ = 0;  // tells the counters of one task from those of the last
  // Threads inside the task, and whether it still takes any.
  alignas(64) std::atomic<uint32_t> gate_{kClosed};
  alignas(64) std::atomic<uint64_t> num_tasks_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int> num_active_;  // changes between tasks, under the mutex
  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable wanted_again_;  // for those that do not work at present
  int num_sleeping_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace edgelora
