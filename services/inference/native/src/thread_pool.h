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
// A phase ends when all its units are done, not when all threads have arrived: a thread that the
// system has put aside holds nobody up unless it is in the middle of a unit, and when it comes
// back it finds the phases it missed finished. On a machine that does other things too this is
// the difference between one late step and a delay at every barrier.
class ThreadPool {
 public:
  class Team {
   public:
    Team(ThreadPool& pool, int index) : phase_(pool.phases_.get()), index_(index) {}
    int index() const { return index_; }

    // Calls f(unit) for each unit in [0, count), every unit on exactly one thread; returns when
    // all are done. Every thread must make the same sequence of calls.
    template <typename F>
    void each(int count, F&& f) {
      Phase& phase = *phase_++;
      int mine = 0;
      for (int unit; (unit = phase.next.fetch_add(1, std::memory_order_relaxed)) < count; mine++)
        f(unit);
      if (mine > 0) phase.done.fetch_add(mine, std::memory_order_acq_rel);
      if (phase.done.load(std::memory_order_acquire) < count) wait(phase, count);
    }

   private:
    struct Phase;
    friend class ThreadPool;
    static void wait(const Phase& phase, int count);

    struct alignas(64) Phase {
      std::atomic<int> next{0};
      std::atomic<int> done{0};
    };
    Phase* phase_;
    const int index_;
  };

  // `max_phases`: most calls of `each` in one task.
  ThreadPool(int num_threads, int max_phases);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // `task` must not throw.
  void run(const std::function<void(Team&)>& task);

 private:
  static constexpr uint32_t kClosed = 1u << 31;

  void work(int index);
  // Returns once there is a task that `seen` does not count yet, or the pool stops.
  uint64_t wait_for_task(uint64_t seen);

  const int max_phases_;
  const std::unique_ptr<Team::Phase[]> phases_;
  const std::function<void(Team&)>* task_ = nullptr;
  // Threads inside the task, and whether it still takes any.
  alignas(64) std::atomic<uint32_t> gate_{kClosed};
  alignas(64) std::atomic<uint64_t> num_tasks_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_sleeping_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace edgelora
